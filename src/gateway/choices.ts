/**
 * Several answers to one request: a run of the plan for each choice, side by side, each with its own budget and its own
 * outcome, heard in one stream. A choice that fails is left out as long as another one answers.
 */
import type { RunOptions, RunResult, RunSystem } from '../contract/capabilities.ts';
import type { ConsortError } from '../contract/errors.ts';
import type { Plan } from '../contract/plan.ts';
import type { Task } from '../contract/task.ts';

/** All start at once, so this bounds what one request can set going. */
export const MOST_CHOICES = 16;

export interface Choices {
  /** By choice. */
  readonly results: readonly RunResult[];
  /** Why there is no choice at all. */
  readonly error?: ConsortError;
  /** Why a choice ended after the client had heard some of it: that cannot be left out in silence. */
  readonly broken?: ConsortError;
}

export async function runChoices(
  run: RunSystem,
  plans: readonly Plan[],
  task: Task,
  options: RunOptions,
): Promise<Choices> {
  const { emit } = options;
  const heard = plans.map((plan, choice) => {
    // One answer keeps the choices of its upstream: a plain model may have several.
    if (plans.length === 1) return run(plan, task, options);
    return run(plan, task, { ...options, ...(emit && { emit: (part) => emit({ ...part, choice }) }) });
  });
  const results = await Promise.all(heard);
  const [failed] = results.flatMap(({ error }) => error ?? []);
  if (!failed) return { results };
  const isAnswered = results.some(({ answer, error }) => answer && !error);
  if (!isAnswered) return { results, error: failed };
  const [broken] = results.flatMap(({ error, outcome }) =>
    error && options.stream && outcome.firstPartMs !== null ? error : [],
  );
  return { results, ...(broken && { broken }) };
}
