import fc from 'fast-check';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import t from 'tap';
import {
  alphaOfGate,
  GATE_RULES,
  judgeRelease,
  type GateEvidence,
  type OutcomePair,
  type Traffic,
} from '../../../src/policy/release/gate.ts';

const traffic = (requests: number, failed: number, ms = 100): Traffic => ({
  requests,
  failed,
  latenciesMs: Array.from({ length: requests - failed }, (_, i) => ms + (i % 10)),
});
const fine = { live: traffic(500, 5), candidate: traffic(500, 5) };

const pairsOf = (won: number, lost: number, tied: number): OutcomePair[] => [
  ...Array.from({ length: won }, () => ({ live: 0, candidate: 1 })),
  ...Array.from({ length: lost }, () => ({ live: 1, candidate: 0 })),
  ...Array.from({ length: tied }, () => ({ live: 1, candidate: 1 })),
];
const judge = (pairs: readonly OutcomePair[], more: Partial<GateEvidence> = {}, rules = GATE_RULES) =>
  judgeRelease({ pairs, ...fine, ...more }, rules);

t.test('a candidate that wins clearly is promoted, one that loses is rejected, others wait', (t) => {
  const better = judge(pairsOf(60, 20, 120));
  t.equal(better.decision, 'promote');
  t.match(better.difference, { pairs: 200, level: 0.95 });
  t.ok(Math.abs((better.difference?.value ?? 0) - 0.2) < 1e-12);
  t.ok((better.difference?.standardError ?? 0) > 0.03 && (better.difference?.standardError ?? 1) < 0.05);
  t.equal(judge(pairsOf(20, 60, 120)).decision, 'reject');
  t.equal(judge(pairsOf(25, 20, 155)).decision, 'wait');
  t.equal(judge(pairsOf(49, 0, 0)).decision, 'wait', 'too few pairs');
  t.equal(judge(pairsOf(9, 0, 200)).decision, 'wait', 'too few that differ');
  t.equal(judge(pairsOf(0, 0, GATE_RULES.mostPairs)).decision, 'reject', 'not shown in time');
  t.equal(judge([]).difference, null);
  t.throws(() => judge([{ live: 0, candidate: 1.5 }]), RangeError);
  t.end();
});

t.test('rewards between 0 and 1, and "not worse", go through the confidence sequence', (t) => {
  const graded = (shift: number, n: number) =>
    Array.from({ length: n }, (_, i) => ({
      live: 0.4 + (i % 5) / 50,
      candidate: 0.4 + shift + (i % 7) / 70,
    }));
  t.equal(judge(graded(0.2, 200)).decision, 'promote');
  t.equal(judge(graded(-0.2, 200)).decision, 'reject');
  const tolerant = { ...GATE_RULES, margin: -0.02 };
  t.equal(judge(graded(0, 500), {}, tolerant).decision, 'promote', 'as good as before');
  t.equal(judge(graded(0, 500)).decision, 'wait', 'and not better');
  t.end();
});

t.test('a candidate that fails more often or is slower is rejected however good it is', (t) => {
  const good = pairsOf(60, 20, 120);
  t.equal(judge(good, { candidate: traffic(500, 60) }).decision, 'reject');
  t.equal(judge(good, { candidate: traffic(500, 30) }).decision, 'wait', 'perhaps');
  t.equal(judge(good, { candidate: traffic(500, 5, 200) }).decision, 'reject');
  t.equal(judge(good, { candidate: traffic(500, 5, 115) }).decision, 'promote', 'within the ratio');
  t.equal(judge(good, { candidate: traffic(10, 0) }).decision, 'wait', 'too little traffic');
  t.equal(judge(good, { candidate: traffic(0, 0) }).decision, 'wait');
  const { findings } = judge(good, { candidate: traffic(500, 60) });
  t.same(
    findings.map(({ about, decision }) => [about, decision]),
    [
      ['quality', 'promote'],
      ['errors', 'reject'],
      ['latency', 'promote'],
    ],
  );
  t.match(findings[1]?.reason, '60 of 500 failed');
  t.end();
});

t.test('an equal candidate is hardly ever promoted, though the gate looks after every prompt', (t) => {
  const generator = xoroshiro128plus(7);
  const uniform = () => (generator.next() >>> 0) / 2 ** 32;
  let promoted = 0;
  const runs = 200;
  for (let run = 0; run < runs; run++) {
    const pairs: OutcomePair[] = [];
    for (let n = 1; n <= 400; n++) {
      pairs.push({ live: uniform() < 0.6 ? 1 : 0, candidate: uniform() < 0.6 ? 1 : 0 });
      if (n % 10 === 0 && judge(pairs).decision === 'promote') {
        promoted++;
        break;
      }
    }
  }
  t.ok(promoted / runs <= 0.05 + 0.03, `${promoted} of ${runs}`);
  t.end();
});

t.test('the verdict is symmetric, and more wins never turn a promotion back', (t) => {
  fc.assert(
    fc.property(fc.nat(150), fc.nat(150), fc.nat(100), (won, lost, tied) => {
      const [one, other] = [judge(pairsOf(won, lost, tied)), judge(pairsOf(lost, won, tied))];
      const mirrored = { promote: 'reject', reject: 'promote', wait: 'wait' } as const;
      const more = judge(pairsOf(won + 1, lost, tied)).decision;
      return other.decision === mirrored[one.decision] && (one.decision !== 'promote' || more === 'promote');
    }),
  );
  t.end();
});

t.test('the levels of all gates of a policy add up to one', (t) => {
  let sum = 0;
  for (let k = 1; k <= 10_000; k++) sum += alphaOfGate(0.05, k);
  t.ok(sum < 0.05 && sum > 0.0499);
  t.ok(alphaOfGate(0.05, 1) > alphaOfGate(0.05, 2));
  t.throws(() => alphaOfGate(0.05, 0), RangeError);
  t.end();
});
