import t, { type Test } from 'tap';
import { PROBE_LIMITS, probeRelease, type ProbePrompt } from '../../../src/policy/release/prober.ts';
import { vllm } from '../../../src/policy/serving/vllm.ts';
import { FakeVllm } from '../../support/vllm.ts';

const ADAPTER = { name: 'policy-v000001', path: '/loras/policy-v000001' };

async function start(t: Test, shift = 0.4) {
  const files = { [ADAPTER.path]: { rank: 8, shift } };
  const replicas = await Promise.all([1, 2].map(() => FakeVllm.start({ files })));
  const [first] = replicas as [FakeVllm, FakeVllm];
  const fleet = vllm.open({ replicas: replicas.map(({ url }) => url), base: first.base });
  t.teardown(async () => {
    await fleet.close();
    await Promise.all(replicas.map((replica) => replica.close()));
  });
  await fleet.load(ADAPTER);
  /** The trainer's own numbers, off by a little as two engines are. */
  const promptsOff = (by: number): ProbePrompt[] =>
    [
      [1, 2, 3, 4],
      [9, 8, 7, 6, 5, 4, 3],
    ].map((tokens) => ({
      tokens,
      trainer: first
        .logprobs(ADAPTER.path, tokens)
        .map((logprob, i) => (logprob === null ? null : logprob + (i % 2 ? by : -by))),
    }));
  return { fleet, replicas, promptsOff };
}

t.test('replicas that compute what the trainer does pass', async (t) => {
  const { fleet, promptsOff } = await start(t);
  const findings = await probeRelease(fleet, ADAPTER.name, promptsOff(0.02));
  t.same(
    findings.map(({ replica }) => replica),
    fleet.replicas,
  );
  for (const { tokens, gap, shift } of findings) {
    t.equal(tokens, 9);
    t.ok(Math.abs(gap - 0.02) < 1e-9);
    t.ok(shift > 0.05 && shift < 0.4);
  }
});

t.test('one replica that serves the base without a word is caught and named', async (t) => {
  const { fleet, replicas, promptsOff } = await start(t, 0.04);
  await probeRelease(fleet, ADAPTER.name, promptsOff(0));
  replicas[1]!.silentBase = true;
  await t.rejects(probeRelease(fleet, ADAPTER.name, promptsOff(0)), {
    code: 'probe_failed',
    message: new RegExp(`${fleet.replicas[1]} .*policy-v000001: it answers as the base model does`),
  });
});

t.test('weights that are not the trainer’s are caught', async (t) => {
  const { fleet, promptsOff } = await start(t);
  await t.rejects(probeRelease(fleet, ADAPTER.name, promptsOff(0.06)), {
    code: 'probe_failed',
    message: /0\.0600 nats a token from the trainer’s, at most 0\.05/,
  });
  t.equal(PROBE_LIMITS.mostGap, 0.05);
  const odd = promptsOff(0).map(({ tokens }) => ({ tokens, trainer: tokens.map(() => null) }));
  await t.rejects(probeRelease(fleet, ADAPTER.name, odd), { code: 'probe_failed', message: /NaN/ });
  await t.rejects(probeRelease(fleet, ADAPTER.name, []), { code: 'probe_failed', message: /no tokens/ });
  await t.rejects(probeRelease(fleet, 'nobody', promptsOff(0)), { code: 'serving_status' });
});
