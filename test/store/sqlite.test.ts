import t from 'tap';
import type { Test } from 'tap';
import { openStore } from '../../src/store/index.ts';
import { storeConformance } from '../conformance/store.ts';

async function onDisk(t: Test) {
  const url = `sqlite:${t.testdir()}/deep/consort.db`;
  return { open: () => openStore(url), restart: async () => {} };
}

storeConformance(t, 'a SQLite file', onDisk);
