/**
 * A learner that gets killed: trains on groups 1 … n, saves its state after the second, and prints what it took.
 * Arguments: server, directory, n.
 */
import { TinkerTrainer } from '../../../src/policy/trainers/tinker.ts';
import { batchOf, groupOf, LEASE, QUICK, RUN } from './site.ts';

const [baseUrl = '', directory = '', count = ''] = process.argv.slice(2);
const trainer = new TinkerTrainer({ baseUrl, directory, timeouts: QUICK, chunks: { maxDatums: 1 } });
await trainer.ensureRun(RUN, LEASE);
for (let index = 1; index <= Number(count); index++) {
  if (await trainer.submitGroups(batchOf(groupOf(index)))) await trainer.step();
  if (index === 2) await trainer.saveState();
}
await trainer.close();
