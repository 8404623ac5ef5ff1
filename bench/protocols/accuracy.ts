/**
 * How often each protocol is right, and what it takes: every task is put to every system and every single member, one
 * after the other, so that all meet the same machine. Then the best single member is asked as often as each protocol
 * asked its members, and its answers vote.
 */
import { ask, inParallel, type Heard } from './ask.ts';
import { PARTNERS, REPEATED, SYSTEMS } from './systems.ts';
import { isRight, type BenchTask } from './tasks.ts';

export interface Tally {
  /** By task. */
  readonly right: readonly boolean[];
  readonly calls: number;
  readonly tokens: number;
  readonly medianMs: number;
  readonly errors: readonly string[];
}

export interface Accuracy {
  readonly tasks: number;
  readonly best: string;
  readonly members: Readonly<Record<string, Tally>>;
  readonly protocols: Readonly<Record<string, Tally>>;
  /** The best member's vote over so many samples of its own. */
  readonly repeated: Readonly<Record<number, Tally>>;
}

const mean = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0) / values.length;
export const shareOf = ({ right }: Pick<Tally, 'right'>): number => mean(right.map(Number));

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return ((sorted[(sorted.length - 1) >> 1] ?? NaN) + (sorted[sorted.length >> 1] ?? NaN)) / 2;
}

function tallyOf(heard: readonly Heard[], tasks: readonly BenchTask[]): Tally {
  return {
    right: tasks.map((task, index) => isRight(heard[index]?.text ?? '', task)),
    calls: mean(heard.map(({ calls }) => calls)),
    tokens: mean(heard.map(({ tokens }) => tokens)),
    medianMs: median(heard.map(({ ms }) => ms)),
    errors: heard.flatMap(({ errors }) => errors),
  };
}

/** @param say hears of each task that is done */
export async function measureAccuracy(
  url: string,
  tasks: readonly BenchTask[],
  say: (line: string) => void,
): Promise<Accuracy> {
  const models = [...PARTNERS, ...SYSTEMS.map(({ model }) => model)];
  const heard = new Map(models.map((model) => [model, [] as Heard[]]));
  for (const [index, { prompt, seed }] of tasks.entries()) {
    // Another begins each time, so that none always follows the same neighbour.
    const turn = index % models.length;
    for (const model of [...models.slice(turn), ...models.slice(0, turn)]) {
      heard.get(model)?.push(await ask(url, { model, prompt, seed }));
    }
    say(`task ${index + 1} of ${tasks.length}`);
  }
  const tally = (model: string): Tally => tallyOf(heard.get(model) ?? [], tasks);
  const members = Object.fromEntries(PARTNERS.map((id) => [id, tally(id)]));
  const protocols = Object.fromEntries(SYSTEMS.map(({ protocol, model }) => [protocol, tally(model)]));
  const best =
    PARTNERS.toSorted((a, b) => shareOf(members[b] as Tally) - shareOf(members[a] as Tally))[0] ?? '';
  const counts = new Set(Object.values(protocols).map(({ calls }) => Math.round(calls)));
  const repeated: Record<number, Tally> = {};
  for (const samples of [...counts].toSorted((a, b) => a - b)) {
    say(`${best} with ${samples} samples`);
    repeated[samples] = await repeat(url, tasks, best, samples);
  }
  return { tasks: tasks.length, best, members, protocols, repeated };
}

async function repeat(
  url: string,
  tasks: readonly BenchTask[],
  best: string,
  samples: number,
): Promise<Tally> {
  const consort = { coalition: [best], options: { samples } };
  const jobs = tasks.map(
    ({ prompt, seed }) =>
      () =>
        ask(url, { model: REPEATED, prompt, seed, consort }),
  );
  return tallyOf(await inParallel(4, jobs), tasks);
}
