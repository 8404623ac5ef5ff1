/** The guided tour itself: a team of tiny real models over HTTP, with the official client. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import { readConfig } from '../../config/load.ts';
import { problemError } from '../../config/problem.ts';
import type { Config } from '../../contract/config.ts';
import type { Estimate } from '../../contract/estimate.ts';
import type { TaskRow } from '../../contract/task.ts';
import { readTaskFile } from '../../scoring/sweep/task-file.ts';
import { integerFlag, type Invocation } from '../command.ts';
import { bestMember, compare, comparisonText } from './against-best.ts';
import { startTinyTeam, TINY_TEAM } from './tiny-team.ts';
import { ask, coalitions, inParallel, streamOne } from './tour.ts';
import { memberTable } from '../eval-text.ts';
import { startGateway } from '../gateway.ts';
import { known } from '../known.ts';
import { createLogger } from '../logger.ts';
import { untilSignal } from '../serve.ts';
import { Progress } from '../terminal.ts';

const DEFAULT_TASKS = 200;
/** The two systems of the tour and the calls that the whole team of three makes in each. */
const SYSTEMS = [
  { id: 'tiny-vote', calls: 3 },
  { id: 'tiny-fuse', calls: 4 },
];
const DIRECTORY = join('.consort', 'demo');

const write = (text: string) => void process.stdout.write(text);

function demoConfig(baseUrl: string, port: number): Config {
  const environment = { TINY_TEAM_URL: baseUrl };
  const { config, problems } = readConfig(join(TINY_TEAM, 'consort.yaml'), environment, known);
  if (!config) throw problemError(problems);
  // Each tour starts from nothing, so that its numbers are its own.
  rmSync(DIRECTORY, { recursive: true, force: true });
  const url = `sqlite:${join(DIRECTORY, 'consort.db')}`;
  return {
    ...config,
    server: { ...config.server, port, adminPort: 0 },
    store: { ...config.store, url, spoolDirectory: join(DIRECTORY, 'spool') },
  };
}

/** Runs every coalition on every task; returns rewards by coalition. */
async function runSystem(
  client: OpenAI,
  system: string,
  members: readonly string[],
  rows: readonly TaskRow[],
) {
  const all = coalitions(members);
  const progress = new Progress(
    `  ${system}: ${all.length} coalitions × ${rows.length} tasks`,
    all.length * rows.length,
  );
  let done = 0;
  const jobs = rows.flatMap((row) =>
    all.map((coalition) => () => ask(client, row, { system, coalition, counted: true })),
  );
  const rewards = await inParallel(jobs, () => progress.show(++done));
  progress.close();
  return new Map(
    all.map((coalition, index) => [
      coalition.join('+'),
      rows.map((_, row) => rewards[row * all.length + index] ?? 0),
    ]),
  );
}

/** The gateway's own numbers, once the scorer has caught up with what was sent. */
async function estimatesOf(url: string, system: string, prompts: number): Promise<Estimate[]> {
  for (let attempt = 0; ; attempt++) {
    const response = await fetch(`${url}/v1/estimates?system=${system}`);
    const { data } = (await response.json()) as { data: Estimate[] };
    const centred = data.find(({ metric }) => metric === 'shapley-centred');
    if ((centred?.clusters ?? 0) >= prompts || attempt === 100) return data;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function rankSentence(estimates: readonly Estimate[]): string {
  const order = (metric: string) =>
    estimates
      .filter((estimate) => estimate.metric === metric)
      .toSorted((a, b) => b.value - a.value)
      .map(({ subject, value }, index, all) => {
        const isTied = index > 0 && all[index - 1]?.value === value;
        return index === 0 ? subject : `${isTied ? '=' : '>'} ${subject}`;
      })
      .join(' ');
  const [alone, inTeam] = [order('individual'), order('leave-one-out')];
  const separated = estimates.some(
    ({ metric, rank }) => metric === 'leave-one-out' && rank && rank[1] - rank[0] < 2,
  );
  const doubt = separated ? '' : ' The rank intervals overlap: these tasks do not separate the members.';
  return alone === inTeam
    ? `The ranks alone and in the team do not differ here: ${alone}.${doubt}`
    : `The ranks differ: alone ${alone}; by what the team loses without them ${inTeam}.${doubt}`;
}

async function showSystem(
  client: OpenAI,
  url: string,
  { id, calls }: (typeof SYSTEMS)[number],
  members: readonly string[],
  rows: readonly TaskRow[],
) {
  const rewards = await runSystem(client, id, members, rows);
  const estimates = await estimatesOf(url, id, rows.length);
  write(`\n${id}: ${rows.length} tasks, every coalition, anytime-valid 95 % intervals\n`);
  write(`${memberTable(members, estimates)}\n${rankSentence(estimates)}\n`);
  const half = Math.floor(rows.length / 2);
  const alone = new Map(members.map((alias) => [alias, (rewards.get(alias) ?? []).slice(0, half)]));
  const best = bestMember(alone);
  const other = rows.slice(half);
  const jobs = other.map(
    (row) => () =>
      ask(client, row, {
        system: 'tiny-vote',
        coalition: [best],
        options: { samples: calls },
        counted: false,
      }),
  );
  const sampled = await inParallel(jobs, () => undefined);
  const team = (rewards.get(members.join('+')) ?? []).slice(half);
  write(`${comparisonText(compare(best, team, sampled), calls)}\n`);
}

export async function runTour({ flags, environment }: Invocation): Promise<number> {
  const limit = integerFlag(flags, 'limit', 4, 800) ?? DEFAULT_TASKS;
  const startedAt = performance.now();
  const team = await startTinyTeam((line) => write(`${line}\n`));
  try {
    const config = demoConfig(team.baseUrl, integerFlag(flags, 'port', 0, 65_535) ?? 8080);
    const quiet = { ...environment, CONSORT_LOG_LEVEL: environment['CONSORT_LOG_LEVEL'] ?? 'warn' };
    const gateway = await startGateway({ config, notice: null }, quiet, createLogger(quiet));
    try {
      await show(gateway.url, config, limit);
      write(`\nThe tour took ${((performance.now() - startedAt) / 1000).toFixed(0)} s.\n`);
      if (flags['once']) return 0;
      const { url } = gateway;
      write(`The gateway stays at ${url}/v1 until Ctrl-C; estimates at ${url}/v1/estimates.\n`);
      await untilSignal();
      return 0;
    } finally {
      await gateway.close();
    }
  } finally {
    await team.close();
  }
}

async function show(url: string, config: Config, limit: number): Promise<void> {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const rows = readTaskFile(join(TINY_TEAM, 'tasks', 'mixed.jsonl')).slice(0, limit);
  write('The team: real language models of 0.43 million parameters each, trained on four toy task kinds.\n');
  write('What they do says nothing about useful language models.\n\n');
  const question = rows[0]?.prompt ?? '';
  write(`One answer of consort/tiny-fuse, live:\n  question: ${question}\n`);
  await streamOne(client, 'tiny-fuse', question, write);
  const members = config.pools.find(({ id }) => id === 'tiny')?.members ?? [];
  for (const system of SYSTEMS) await showSystem(client, url, system, members, rows);
}
