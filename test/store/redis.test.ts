import t from 'tap';
import type { Test } from 'tap';
import { openStore } from '../../src/store/index.ts';
import { storeConformance } from '../conformance/store.ts';
import { startRedis } from '../support/redis.ts';

async function onServer(t: Test) {
  const server = await startRedis({ durable: true });
  t.teardown(() => server.stop());
  return {
    open: () => openStore(server.url),
    restart: async () => {
      await server.kill();
      await server.start();
    },
  };
}

storeConformance(t, 'a Redis server', onServer);
