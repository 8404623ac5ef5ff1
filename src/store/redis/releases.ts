/** Releases in Redis: a hash of texts a policy, changed by one script. */
import type { Release } from '../../contract/release.ts';
import type { Releases } from '../../contract/store.ts';
import { byVersion, decodeRelease, policyOf, storedRelease } from '../stored-release.ts';
import type { Connection } from './connection.ts';
import { liveKey, POLICIES, releasesKey, transitionsKey } from './keys.ts';

export function redisReleases(connection: Connection): Releases {
  const policies = async () => (await connection.run((server) => server.smembers(POLICIES))).toSorted();
  return {
    get: async (policy, version) =>
      decodeRelease(await connection.run((server) => server.hget(releasesKey(policy), `${version}`))),
    policies,
    async list(policy) {
      const names = policy === undefined ? await policies() : [policy];
      const lists = await Promise.all(names.map((name) => releasesOf(connection, name)));
      return lists.flat();
    },
    async compareAndSet(changes) {
      const policy = policyOf(changes);
      const keys = [releasesKey(policy), transitionsKey(policy), liveKey(policy)];
      const args = changes.map(storedRelease).flatMap(({ version, expected, transitions, isLive, body }) => {
        return [version, expected, transitions, isLive ? 1 : 0, body];
      });
      return connection.run(async (server) => {
        // First, so that a release is never there and not found.
        await server.sadd(POLICIES, policy);
        return (await server.consortChange(...keys, ...args)) === 1;
      });
    },
    live: async (policy) =>
      decodeRelease(await connection.run((server) => server.hget(liveKey(policy), 'body'))),
  };
}

async function releasesOf(connection: Connection, policy: string): Promise<Release[]> {
  const bodies = await connection.run((server) => server.hvals(releasesKey(policy)));
  return bodies.flatMap((body) => decodeRelease(body) ?? []).toSorted(byVersion);
}
