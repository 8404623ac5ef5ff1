/**
 * A gateway's spool in a process that gets killed: appends outcomes to a spool before a SQLite store, and prints the
 * id of each once `append` has returned. Arguments: store URL, spool directory, pool.
 */
import { once } from 'node:events';
import { openStore } from '../../src/store/index.ts';
import { Spool } from '../../src/store/spool.ts';
import { outcomeEntry } from '../conformance/store-fixtures.ts';

const [url = '', directory = '', pool = ''] = process.argv.slice(2);
const store = await openStore(url);
const spool = Spool.open({ directory, maxBytes: 67_108_864, instance: 'child', ledger: store.ledger });
for (;;) {
  for (let i = 0; i < 20; i++) {
    const entry = outcomeEntry(pool);
    const isTaken = spool.append(entry);
    if (isTaken && !process.stdout.write(`${entry.outcome.id}\n`)) await once(process.stdout, 'drain');
  }
  await new Promise((resolve) => setImmediate(resolve));
}
