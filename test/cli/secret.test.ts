import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { once } from 'node:events';
import t from 'tap';
import { readSecret } from '../../src/cli/natives.ts';

const READERS = 2;
const FILES = 400;

/** Reads the secret of one folder after the other as soon as all readers are there. */
const reader = `
  const { workerData, parentPort } = require('node:worker_threads');
  import(workerData.module).then(({ readSecret }) => {
    const together = new Int32Array(workerData.together);
    const secrets = [];
    for (let i = 0; i < ${FILES}; i++) {
      Atomics.add(together, 0, 1);
      while (Atomics.load(together, 0) < ${READERS} * (i + 1));
      secrets.push(readSecret(undefined, workerData.directory + '/' + i + '/secret'));
    }
    parentPort.postMessage(secrets);
  });
`;

t.test('gateways that start at the same time agree on a whole secret', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'consort-secret-'));
  t.teardown(() => rmSync(directory, { recursive: true }));
  const module = new URL('../../src/cli/natives.ts', import.meta.url).href;
  const workerData = { module, directory, together: new SharedArrayBuffer(4) };
  const lists = await Promise.all(
    Array.from({ length: READERS }, async () => {
      const [secrets] = (await once(new Worker(reader, { eval: true, workerData }), 'message')) as [string[]];
      return secrets;
    }),
  );
  for (let i = 0; i < FILES; i++) {
    const found = new Set(lists.map((secrets) => secrets[i]));
    if (found.size > 1 || !/^[0-9a-f]{64}$/.test([...found].join()))
      t.fail(`file ${i}: ${[...found].join()}`);
  }
  t.same(readdirSync(join(directory, '0')), ['secret'], 'and leave nothing else behind');
  t.equal(statSync(join(directory, '0/secret')).mode & 0o777, 0o600);
});

t.test('a secret that is given is the secret', (t) => {
  t.equal(readSecret('given', '/nowhere/secret'), 'given');
  t.end();
});
