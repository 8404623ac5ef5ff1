import t from 'tap';
import { Stage, type Release } from '../../../src/contract/release.ts';
import { ReleaseBook } from '../../../src/policy/release/book.ts';
import {
  exported,
  MOVES,
  moved,
  predecessorOf,
  servedName,
  type Export,
} from '../../../src/policy/release/machine.ts';
import { openStore } from '../../../src/store/index.ts';

const fieldsOf = (version: number): Export => ({
  policy: 'policy',
  version,
  servedAs: servedName('policy', version),
  base: 'b',
  artifact: { uri: 'file:/x', sha256: 'ab'.repeat(32) },
  trainedOn: { run: 'r', step: version },
});

t.test('a release goes its way one stage at a time, and remembers when and why', (t) => {
  const stages = ['verified', 'loaded', 'probed', 'live', 'retired', 'live', 'rolled-back'] as const;
  const start = exported(fieldsOf(7), { at: 0, reason: 'step 7' });
  const end = stages.reduce((one, to, i) => moved(one, to, { at: i + 1, reason: `to ${to}` }), start);
  t.equal(end.stage, 'rolled-back');
  t.same(end.history[0], { from: null, to: 'exported', at: 0, reason: 'step 7' });
  t.same(end.history[4], { from: 'probed', to: 'live', at: 4, reason: 'to live' });
  t.equal(end.history.length, stages.length + 1);
  t.equal(start.history.length, 1, 'an earlier state is not changed');
  t.equal(end.servedAs, 'policy-v000007');
  t.end();
});

t.test('every move that is not listed is refused', (t) => {
  const stages = Stage.anyOf.map(({ const: stage }) => stage);
  let refused = 0;
  for (const from of stages) {
    for (const to of stages) {
      const release = { ...exported(fieldsOf(1), { at: 0, reason: '' }), stage: from };
      if (MOVES[from].includes(to)) {
        t.equal(moved(release, to, { at: 1, reason: '' }).stage, to);
        continue;
      }
      refused++;
      t.throws(() => moved(release, to, { at: 1, reason: '' }), {
        code: 'release_move_illegal',
        message: `Version 1 of policy policy is ${from} and cannot become ${to}`,
      });
    }
  }
  t.equal(refused, 64 - 12);
  for (const stage of stages) t.notOk(MOVES[stage].includes('exported'), 'nothing becomes new again');
  t.end();
});

t.test('a rollback goes to the version that was live last, not to the newest', (t) => {
  const at = (version: number, when: number, ...to: readonly Stage[]) =>
    to.reduce<Release>((one, stage) => moved(one, stage, { at: when, reason: '' }), {
      ...exported(fieldsOf(version), { at: 0, reason: '' }),
      stage: 'probed',
    });
  const all = [
    at(1, 50, 'live', 'retired'),
    at(2, 40, 'live', 'retired'),
    at(3, 60, 'retired'),
    at(4, 70, 'live', 'rolled-back'),
  ];
  const live = at(5, 80, 'live');
  t.equal(predecessorOf(live, [...all, live])?.version, 1);
  t.equal(predecessorOf(live, [live]), undefined);
  t.end();
});

t.test('the book promotes and rolls back in one step, and of two controllers one wins', async (t) => {
  const store = await openStore(`sqlite:${t.testdir()}/consort.db`);
  let now = 0;
  const [book, other] = [1, 2].map(() => new ReleaseBook(store.releases, () => ++now)) as [
    ReleaseBook,
    ReleaseBook,
  ];
  const probed = async (version: number) => {
    let release = await book.open(fieldsOf(version), 'exported');
    for (const stage of ['verified', 'loaded', 'probed'] as const) {
      release = await book.move(release, stage, 'as in a test');
    }
    return release;
  };
  const first = await probed(1);
  await t.rejects(book.open(fieldsOf(1), 'again'), { code: 'release_conflict', retryable: true });
  await t.rejects(book.get('policy', 9), { code: 'release_not_found' });
  await t.rejects(book.rollBack('policy', 'nothing is live'), { code: 'release_conflict' });
  await book.promote(first, 'the first');
  t.equal(await book.rollBack('policy', 'bad'), undefined, 'none before: the model of the configuration');
  t.equal(await store.releases.live('policy'), undefined);
  await t.rejects(book.promote(await book.get('policy', 1), 'again'), { code: 'release_move_illegal' });

  await book.promote(await probed(2), 'good');
  const third = await probed(3);
  const results = await Promise.allSettled([book.promote(third, 'one'), other.promote(third, 'two')]);
  t.same(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
  t.match(
    results.find(({ status }) => status === 'rejected'),
    { reason: { code: 'release_conflict' } },
  );
  t.equal((await book.get('policy', 2)).stage, 'retired');
  t.match((await book.get('policy', 2)).history.at(-1)?.reason, /version 3 is live: (one|two)/);
  t.equal((await other.rollBack('policy', 'worse'))?.version, 2);
  t.equal((await store.releases.live('policy'))?.version, 2);
  t.equal((await book.get('policy', 3)).stage, 'rolled-back');
  await store.close();
});
