/** A real Prometheus that scrapes what a test runs, with the labels that the chart's PodMonitor gives. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stringify } from 'yaml';

const RULES = ['recording', 'alerts'];
const READY_MS = 20_000;

export const hasPrometheus = (): boolean => spawnSync('prometheus', ['--version']).error === undefined;

/** What `promtool check metrics` has to say about a page of metrics; nothing when it is clean. */
export function metricsProblems(page: string): string {
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
    input: page,
    encoding: 'utf8',
  });
  return status === 0 ? '' : `${stdout}${stderr}`;
}

export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
}

export class Prometheus {
  readonly url: string;
  readonly #stop: () => Promise<void>;

  private constructor(url: string, stop: () => Promise<void>) {
    this.url = url;
    this.#stop = stop;
  }

  /** @param pods addresses of metrics by pod */
  static async start(pods: Readonly<Record<string, string>>, rules: string): Promise<Prometheus> {
    const directory = mkdtempSync(join(tmpdir(), 'consort-prometheus-'));
    // Once a second, so that a test need not wait for half a minute; the expressions are those of the chart.
    for (const file of RULES) {
      const text = readFileSync(join(rules, `${file}.yaml`), 'utf8');
      writeFileSync(join(directory, `${file}.yaml`), text.replaceAll(/interval: \w+/g, 'interval: 1s'));
    }
    const targets = Object.entries(pods).map(([pod, url]) => ({
      targets: [new URL(url).host],
      labels: { namespace: 'ai', pod },
    }));
    const config = {
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: RULES.map((file) => join(directory, `${file}.yaml`)),
      scrape_configs: [{ job_name: 'consort', static_configs: targets }],
    };
    writeFileSync(join(directory, 'prometheus.yaml'), stringify(config));
    const port = await freePort();
    const flags = {
      'config.file': join(directory, 'prometheus.yaml'),
      'storage.tsdb.path': join(directory, 'data'),
      'web.listen-address': `127.0.0.1:${port}`,
    };
    const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
    const child = spawn('prometheus', args, { stdio: 'ignore' });
    const gone = once(child, 'exit');
    const url = `http://127.0.0.1:${port}`;
    for (const end = performance.now() + READY_MS; ; await sleep(100)) {
      const isReady = await fetch(`${url}/-/ready`).then(
        ({ ok }) => ok,
        () => false,
      );
      if (isReady) break;
      if (performance.now() > end || child.exitCode !== null) throw new Error('Prometheus did not start');
    }
    return new Prometheus(url, async () => {
      child.kill();
      await gone;
      rmSync(directory, { recursive: true, force: true });
    });
  }

  async query(query: string): Promise<readonly Sample[]> {
    const body = new URLSearchParams({ query });
    const answer = await fetch(`${this.url}/api/v1/query`, { method: 'POST', body });
    const { status, error, data } = (await answer.json()) as {
      status: string;
      error?: string;
      data: { result: Sample[] };
    };
    if (status !== 'success') throw new Error(`${query}: ${error}`);
    return data.result;
  }

  /** The data of another route of the API. */
  async ask<T>(route: string): Promise<T> {
    const answer = await fetch(`${this.url}/api/v1/${route}`);
    return ((await answer.json()) as { data: T }).data;
  }

  close(): Promise<void> {
    return this.#stop();
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}
