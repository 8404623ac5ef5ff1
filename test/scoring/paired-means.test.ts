import { createHash } from 'node:crypto';
import t from 'tap';
import { fromPrompts } from '../../src/scoring/estimators/from-prompts.ts';
import { pairedMeans } from '../../src/scoring/estimators/paired-means.ts';

const draw = (label: string) => createHash('sha256').update(label).digest().readUIntBE(0, 6) / 2 ** 48;

void t.test('it is what a panel says of the team, of a member alone and of who is left out', (t) => {
  for (const [kind, share] of [
    ['binary', Math.round],
    ['real', (value: number) => value],
  ] as const) {
    for (const perCluster of [1, 3]) {
      const prompts = Array.from({ length: 60 }, (_, index) => ({
        cluster: `c${Math.floor(index / perCluster)}`,
        // Of the masks 1, 2 and 3.
        rewards: [1, 2, 3].map((mask) => share(draw(`${kind}/${index}/${mask}`))),
      }));
      const panel = fromPrompts({ players: ['a', 'b'], design: 'full', masks: [1, 2, 3], prompts });
      const pairs = prompts.map(({ cluster, rewards: [first, , both] }) => ({
        cluster,
        first: both!,
        second: first!,
      }));
      const { first, second, difference } = pairedMeans(pairs);
      t.strictSame(first, panel.grand, `${kind}, ${perCluster} in a cluster`);
      t.strictSame(second, panel.individual?.estimates[0]);
      t.strictSame(difference, panel.loo.estimates[1]);
    }
  }
  t.throws(() => pairedMeans([]), RangeError);
  t.end();
});
