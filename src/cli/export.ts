/** consort export: rolls the live system out on a set of tasks and writes trajectory groups as shards. */
import { ConsortError } from '../contract/errors.ts';
import type { TaskRow } from '../contract/task.ts';
import type { ObjectiveChoice } from '../contract/train-config.ts';
import type { TrajectoryGroup } from '../contract/trajectory.ts';
import { SYSTEM_PREFIX, type System } from '../gateway/catalog.ts';
import { planOf } from '../gateway/resolve.ts';
import { objectiveAt } from '../policy/objectives.ts';
import { collectGroup, type CollectorParts } from '../policy/rollout-groups.ts';
import { writeShard } from '../policy/shards.ts';
import { judge } from '../scoring/judge.ts';
import { verifiers } from '../scoring/rewards/index.ts';
import { readTaskFile, taskOfRow } from '../scoring/sweep/task-file.ts';
import { integerFlag, requiredFlag, textFlag, type Command, type Flags } from './command.ts';
import { openForEvaluation } from './evaluation.ts';
import { clock, newId } from './natives.ts';
import { loadSettings, systemNamed } from './settings.ts';
import { Progress } from './terminal.ts';

/** Groups that one shard holds: few files, and little is lost with one that a crash cuts off. */
const GROUPS_PER_SHARD = 64;

interface Request {
  readonly system: System;
  readonly policy: TrajectoryGroup['policy'];
  readonly rows: readonly TaskRow[];
  readonly choice: ObjectiveChoice;
  readonly groupSize: number;
  readonly maxTokens: number;
  readonly directory: string;
}

function readChoice(flags: Flags): ObjectiveChoice {
  const name = textFlag(flags, 'objective') ?? 'team';
  const known: readonly ObjectiveChoice[] = ['team', 'self', 'solo', 'mix'];
  const choice = known.find((one) => one === name);
  if (choice) return choice;
  throw new ConsortError('usage', [`--objective takes one of ${known.join(', ')}, got ${name}`]);
}

function readRequest(flags: Flags, systems: ReadonlyMap<string, System>): Request {
  const system = systemNamed(systems, requiredFlag(flags, 'system'), SYSTEM_PREFIX);
  const alias = requiredFlag(flags, 'policy');
  const member = system.pool.members.find((one) => one.alias === alias);
  if (!member) {
    const names = system.pool.members.map((one) => one.alias).join(', ');
    throw new ConsortError('usage', [`--policy ${alias} is not in pool ${system.pool.id}: ${names}`]);
  }
  const rows = readTaskFile(requiredFlag(flags, 'tasks'));
  return {
    system,
    policy: { alias, baseModel: member.model, adapter: null, version: 0 },
    rows: rows.slice(0, integerFlag(flags, 'limit', 1, 1_000_000) ?? rows.length),
    choice: readChoice(flags),
    groupSize: integerFlag(flags, 'group', 2, 256) ?? 8,
    maxTokens: integerFlag(flags, 'max-tokens', 1, 1_000_000) ?? 512,
    directory: requiredFlag(flags, 'to'),
  };
}

/** Writes what has come together, and keeps count of what may be trained on. */
class Output {
  readonly #directory: string;
  #waiting: TrajectoryGroup[] = [];
  written = 0;
  accepted = 0;
  readonly reasons = new Map<string, number>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  async add(group: TrajectoryGroup): Promise<void> {
    this.#waiting.push(group);
    this.written++;
    if (group.filter.accepted) this.accepted++;
    for (const reason of group.filter.reasons) this.reasons.set(reason, (this.reasons.get(reason) ?? 0) + 1);
    if (this.#waiting.length >= GROUPS_PER_SHARD) await this.flush();
  }

  async flush(): Promise<void> {
    const groups = this.#waiting;
    this.#waiting = [];
    if (groups.length > 0) await writeShard(this.#directory, groups, clock.now());
  }
}

async function collect(request: Request, parts: CollectorParts, planParts: Parameters<typeof planOf>[0]) {
  const { system, rows, policy, choice, groupSize, maxTokens } = request;
  const output = new Output(request.directory);
  const progress = new Progress(`${system.id}: ${rows.length} groups of ${groupSize}`, rows.length);
  for (const [index, row] of rows.entries()) {
    if (parts.signal.aborted) break;
    const id = newId();
    const identity = { id, seed: id, promptInstance: row.id, tenant: 'export' };
    const group = await collectGroup(
      {
        plan: planOf(planParts, system, {}, identity),
        task: taskOfRow(row, {}),
        taskId: row.id,
        objective: objectiveAt(choice, index),
        policy,
        groupSize,
        advantage: 'centred',
        visit: 0,
        maxTokens,
      },
      parts,
    );
    if (!parts.signal.aborted) await output.add(group);
    progress.show(index + 1);
  }
  progress.close();
  await output.flush();
  return output;
}

export const exportGroups: Command = {
  name: 'export',
  summary: 'roll a system out on tasks and write trajectory groups of its policy as shards',
  usage:
    '--system ID --policy ALIAS --tasks FILE.jsonl --to DIR [--group G] [--objective team|self|solo|mix] ' +
    '[--limit N] [--max-tokens N]',
  options: {
    system: { type: 'string' },
    policy: { type: 'string' },
    tasks: { type: 'string' },
    to: { type: 'string' },
    group: { type: 'string' },
    objective: { type: 'string' },
    limit: { type: 'string' },
    'max-tokens': { type: 'string' },
  },
  async run(invocation) {
    const { config } = await loadSettings(invocation);
    const running = openForEvaluation(config, invocation.environment['CONSORT_SECRET']);
    const control = new AbortController();
    process.once('SIGINT', () => control.abort());
    try {
      const request = readRequest(invocation.flags, running.catalog.systems);
      const parts: CollectorParts = {
        run: running.run,
        grade: (outcome) => judge(outcome, verifiers, clock.now()),
        clock,
        newId,
        signal: control.signal,
      };
      const planParts = { catalog: running.catalog, maxStreamMs: Number.MAX_SAFE_INTEGER };
      const { written, accepted, reasons } = await collect(request, parts, planParts);
      const summary = {
        groups: written,
        accepted,
        reasons: Object.fromEntries(reasons),
        to: request.directory,
      };
      const left = [...reasons].map(([reason, count]) => `${count} ${reason}`).join(', ');
      const text = `${written} groups in ${request.directory}, ${accepted} to train on${left && `; left out: ${left}`}\n`;
      process.stdout.write(invocation.flags['json'] ? `${JSON.stringify(summary)}\n` : text);
      return control.signal.aborted ? 1 : 0;
    } finally {
      await running.close();
    }
  },
};
