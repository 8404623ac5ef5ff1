import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { TaskRow } from '../../src/contract/task.ts';
import { simRows } from '../../src/gateway/upstreams/sim/tasks.ts';
import { hasPrometheus, metricsProblems, Prometheus, type Sample } from '../support/prometheus.ts';
import { startRedis } from '../support/redis.ts';
import { Site } from '../support/serve.ts';
import { startToyPolicy } from '../support/toy-policy.ts';
import { startUpstream, stream, chunk, usageChunk } from '../support/upstream.ts';

const chart = fileURLToPath(new URL('../../helm/files', import.meta.url));
const PROMPTS = simRows('reason', 40, 1);
const HOLDOUT = simRows('reason', 60, 2);
const ASKED = simRows('reason', 160, 3);
/** Panels that cannot show anything in a test, and why. */
const TOO_SOON = new Map([
  ['consort:cost_usd:rate1h{namespace=~"$namespace"} offset 1w', 'it looks a week back'],
]);

/** A team under shadow evaluation, one whose policy learns, a model that fails at first. */
function documentOf(policy: Awaited<ReturnType<typeof startToyPolicy>>, flaky: string, url: string) {
  const hosting = { replicas: [policy.vllm.url], maxRank: 2 };
  const members = ['sim-atlas', 'sim-boreas', 'sim-dingo'];
  const price = { inputUsdPerMTok: 1, outputUsdPerMTok: 1 };
  const train = {
    policy: 'policy',
    trainer: 'trainer',
    prompts: 'prompts.jsonl',
    holdout: 'holdout.jsonl',
    group: 4,
    batch: 4,
    maxTokens: 1,
    rank: 2,
    steps: 100,
  };
  return {
    store: { url },
    server: { port: 0, adminPort: 0 },
    models: [
      {
        id: 'policy',
        provider: 'openai-compatible',
        baseUrl: policy.vllm.url,
        model: policy.vllm.base,
        hosting,
      },
      { id: 'flaky', provider: 'openai-compatible', baseUrl: flaky, retries: 1, price },
      ...members.map((id) => ({ id, provider: 'sim', delays: false, failures: false, price })),
    ],
    pools: [
      { id: 'pair', members: ['policy', 'sim-dingo'] },
      { id: 'trio', members },
    ],
    trainers: [{ id: 'trainer', baseUrl: policy.tinker.url, baseModel: 'tiny' }],
    systems: [
      { id: 'pair', pool: 'pair', protocol: 'vote', train },
      {
        id: 'trio',
        pool: 'trio',
        protocol: 'vote',
        options: { earlyExit: 0 },
        shadow: { fraction: 1, designs: { duel: 0.5, 'leave-one-out': 0.5 }, usdPerDay: 1000 },
      },
    ],
  };
}

const isNumber = ({ value: [, text] }: Sample) => Number.isFinite(Number(text));
/** Whether a query gives a number, in the end. */
async function answers(prometheus: Prometheus, query: string): Promise<boolean> {
  const filled = query.replaceAll('$namespace', 'ai').replaceAll('$__rate_interval', '30s');
  for (const end = performance.now() + 15_000; ; await sleep(500)) {
    if ((await prometheus.query(filled)).some(isNumber)) return true;
    if (performance.now() > end) return false;
  }
}

async function post(url: string, route: string, body: object): Promise<Response> {
  const answer = await fetch(`${url}/v1/${route}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  await answer.text();
  return answer;
}

async function ask(url: string, body: object): Promise<string> {
  return (await post(url, 'chat/completions', body)).headers.get('x-consort-outcome') ?? '';
}

/** Some of everything that is counted, until the signal: streams, whole answers, rewards, feedback, refusals, retries. */
async function traffic(url: string, signal: AbortSignal): Promise<void> {
  for (let round = 0; !signal.aborted; round++) {
    for (const [index, { prompt = '', gold, verifier }] of ASKED.entries()) {
      if (signal.aborted) return;
      const messages = [{ role: 'user', content: `${prompt}${' '.repeat(round)}` }];
      const consort = { gold, verifier };
      const outcome = await ask(url, { model: 'consort/trio', messages, consort, stream: index % 2 === 0 });
      await post(url, 'feedback', { outcome_id: outcome, metric: 'liked', value: 1 });
      if (index % 10 > 0) continue;
      await ask(url, { model: 'flaky', messages, stream: true });
      await ask(url, { model: 'nobody', messages });
    }
  }
}

t.test(
  'a real Prometheus finds every number that rules and panels ask for',
  { skip: !hasPrometheus() && 'prometheus is not installed' },
  async (t) => {
    const redis = await startRedis();
    const policy = await startToyPolicy([...PROMPTS, ...HOLDOUT], []);
    const flaky = await startUpstream();
    const words = stream(chunk({ content: 'Yes.' }), chunk({}, 'stop'), usageChunk(3, 1), 'data: [DONE]\n\n');
    // Every other call fails once and is tried again.
    let calls = 0;
    flaky.play(() => (calls++ % 2 === 0 ? { status: 503, steps: ['{}'] } : words));
    const site = new Site(documentOf(policy, flaky.url, redis.url));
    t.teardown(async () => {
      site.close();
      await Promise.all([flaky.close(), policy.vllm.close(), policy.tinker.kill(), redis.stop()]);
    });
    const write = (name: string, rows: readonly TaskRow[]) =>
      writeFileSync(join(site.directory, name), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    write('prompts.jsonl', PROMPTS);
    write('holdout.jsonl', HOLDOUT);
    const [gateway, scorer, learner] = await Promise.all([site.serve(), site.score(), site.learn()]);
    const pods = { gateway: gateway.adminUrl, scorer: scorer.adminUrl, learner: learner.adminUrl };
    const prometheus = await Prometheus.start(pods, join(chart, 'rules'));
    t.teardown(() => prometheus.close());
    const control = new AbortController();
    const asking = traffic(gateway.url, control.signal);
    t.teardown(() => control.abort());

    const { panels } = JSON.parse(readFileSync(join(chart, 'dashboards/consort.json'), 'utf8')) as {
      panels: { title: string; targets?: { expr: string }[] }[];
    };
    let asked = 0;
    for (const { title, targets = [] } of panels) {
      for (const { expr } of targets) {
        asked++;
        if (TOO_SOON.has(expr))
          await t.resolves(prometheus.query(expr.replaceAll('$namespace', 'ai')), title);
        else t.ok(await answers(prometheus, expr), `${title}: ${expr}`);
      }
    }
    control.abort();
    await asking;
    const { activeTargets } = await prometheus.ask<{
      activeTargets: { health: string; lastError: string }[];
    }>('targets');
    t.same(
      activeTargets.map(({ health, lastError }) => [health, lastError]),
      Object.keys(pods).map(() => ['up', '']),
    );
    t.ok(asked > 40, `${asked} queries`);
    const { groups } = await prometheus.ask<{
      groups: { name: string; rules: { name: string; health: string; lastError?: string }[] }[];
    }>('rules');
    t.ok(groups.length > 3);
    for (const rule of groups.flatMap(({ rules }) => rules))
      t.equal(rule.health, 'ok', `${rule.name} ${rule.lastError ?? ''}`);
    for (const [pod, url] of Object.entries(pods)) {
      const page = await (await fetch(`${url}/metrics`)).text();
      t.equal(metricsProblems(page), '', `promtool has nothing to say about the ${pod}`);
      t.match(page, `component="${pod}"`);
    }
  },
);
