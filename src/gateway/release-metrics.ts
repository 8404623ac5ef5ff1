/** Which versions of the policies new requests get, looked up at each scrape. */
import { Gauge, type Registry } from 'prom-client';

/** Generations as far as the gauges look into them. */
export interface Followed {
  readonly isStale: boolean;
  /** Live versions by alias. */
  readonly versions: ReadonlyMap<string, number>;
}

export function watchReleases(registry: Registry, followed: Followed): void {
  const version = new Gauge({
    name: 'consort_policy_version',
    help: 'Version of a policy that new requests get; absent while they get the configured model itself.',
    labelNames: ['model'],
    registers: [],
    collect() {
      this.reset();
      for (const [model, live] of followed.versions) this.set({ model }, live);
    },
  });
  const stale = new Gauge({
    name: 'consort_releases_stale',
    help: '1 while the store does not say which releases are live: the versions in use stay.',
    registers: [],
    collect() {
      this.set(followed.isStale ? 1 : 0);
    },
  });
  registry.registerMetric(version);
  registry.registerMetric(stale);
}
