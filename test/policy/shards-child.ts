/** Exports shards until it is killed, and says so before each. */
import { writeShard } from '../../src/policy/shards.ts';
import { madeGroup, runOf } from '../support/trajectories.ts';

const [directory, run] = process.argv.slice(2);
for (let n = 0; ; n++) {
  const groups = Array.from({ length: 40 }, (_, index) =>
    madeGroup([runOf(1), runOf(0)], { groupId: `${run}/${n}/${index}` }),
  );
  process.stdout.write('.');
  await writeShard(directory!, groups, Date.UTC(2026, 0, 1) + n);
}
