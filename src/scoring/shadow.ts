/**
 * Shadow evaluation: a sample of live prompts is run again by other coalitions, in the background, so that leave-one-out
 * and Shapley values of live traffic have no selection in them. Whether a prompt is sampled depends on its cluster and
 * the day, never on what came of it; the same verifier judges both sides; probabilities are recorded.
 */
import type { Clock, NewId, Random, RunSystem, SharedCalls } from '../contract/capabilities.ts';
import type { SystemConfig } from '../contract/config.ts';
import type { Outcome } from '../contract/outcome.ts';
import type { Member, Plan } from '../contract/plan.ts';
import type { Counters } from '../contract/store.ts';
import type { Task } from '../contract/task.ts';
import type { Drawn, ShadowDesign } from './designs/shadow-design.ts';

export type ShadowSettings = NonNullable<SystemConfig['shadow']>;

/** What became of a sampled prompt. */
export type ShadowResult = 'run' | 'busy' | 'budget' | 'repeated' | 'failed';

export interface ShadowParts {
  readonly run: RunSystem;
  readonly designs: readonly ShadowDesign[];
  readonly settingsOf: (system: string) => ShadowSettings | undefined;
  /**
   * The model that stands for a coalition of a system whose weights are merged.
   *
   * @throws where there is none: the prompt then counts as failed
   */
  readonly mergedFor: (system: string, mask: number) => Member | undefined;
  readonly counters: Counters;
  /** Chance by name, the same for all replicas: keyed by the deployment's secret. */
  readonly random: Random;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly onResult: (system: string, result: ShadowResult) => void;
}

/** Prompts that may wait; a full queue counts as busy. */
const MOST_WAITING = 64;
const MOST_UNDER_WAY = 2;
const DAY_MS = 86_400_000;

interface Sampled {
  readonly plan: Plan;
  readonly task: Task;
  readonly settings: ShadowSettings;
  readonly design: ShadowDesign;
  readonly drawn: Drawn;
  readonly share: SharedCalls;
}

export class Shadow {
  readonly #parts: ShadowParts;
  readonly #waiting: (Sampled & { readonly costMicros: number })[] = [];
  readonly #control = new AbortController();
  readonly #underWay = new Set<Promise<void>>();
  #active = 0;

  constructor(parts: ShadowParts) {
    this.#parts = parts;
  }

  /** The system as live requests run it: what is sampled is run again afterwards. */
  readonly run: RunSystem = async (plan, task, options) => {
    const sampled = this.#sample(plan, task);
    this.#active++;
    try {
      const result = await this.#parts.run(plan, task, {
        ...options,
        ...(sampled && { share: sampled.share }),
      });
      if (sampled && result.outcome.status !== 'cancelled') this.#offer(sampled, result.outcome);
      return result;
    } finally {
      this.#active--;
      this.#work();
    }
  };

  /** Resolves when nothing waits or runs. */
  async idle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  /** Gives up what waits and stops what runs. */
  async close(): Promise<void> {
    this.#waiting.length = 0;
    this.#control.abort();
    await this.idle();
  }

  /** Decided before the run. Only the whole team's live answers, judged by a verifier, without side effects. */
  #sample(plan: Plan, task: Task): Sampled | undefined {
    const settings = this.#parts.settingsOf(plan.system);
    if (!settings || plan.design !== 'live' || task.gold === undefined || task.verifier === undefined)
      return undefined;
    // The first choice stands for all: they have one prompt.
    if (plan.replicate > 0) return undefined;
    const isWholeTeam = plan.members.length === plan.pool.size;
    if (!isWholeTeam || task.tools?.length || plan.resumes !== undefined) return undefined;
    const uniform = (what: string) =>
      this.#parts.random(`shadow/${what}/${plan.system}/${plan.cluster}/${this.#day()}`);
    if (uniform('sample') >= settings.fraction) return undefined;
    const weighted = this.#parts.designs
      .filter(({ leastMembers }) => plan.pool.size >= leastMembers)
      .map((design) => ({ design, weight: settings.designs[design.name] }));
    const total = weighted.reduce((sum, { weight }) => sum + weight, 0);
    let left = uniform('design') * total;
    for (const { design, weight } of weighted) {
      left -= weight;
      if (left >= 0 || weight === 0) continue;
      const { masks, propensity } = design.draw(plan.pool.size, [uniform('first'), uniform('second')]);
      const drawn = { masks, propensity: (settings.fraction * weight * propensity) / total };
      return { plan, task, settings, design, drawn, share: new Map() };
    }
    return undefined;
  }

  #offer(sampled: Sampled, { costMicros }: Outcome): void {
    if (this.#waiting.length >= MOST_WAITING) this.#parts.onResult(sampled.plan.system, 'busy');
    else this.#waiting.push({ ...sampled, costMicros });
  }

  #work(): void {
    while (this.#underWay.size < MOST_UNDER_WAY && !this.#control.signal.aborted) {
      const index = this.#waiting.findIndex(({ settings }) => this.#active <= settings.maxActive);
      const [next] = index === -1 ? [] : this.#waiting.splice(index, 1);
      if (!next) return;
      const running: Promise<void> = this.#rerun(next)
        .then((result) => this.#parts.onResult(next.plan.system, result))
        .catch(() => this.#parts.onResult(next.plan.system, 'failed'))
        .finally(() => {
          this.#underWay.delete(running);
          this.#work();
        });
      this.#underWay.add(running);
    }
  }

  /**
   * Reserves what the live run cost, once for each coalition, runs, and settles what it did cost. A coalition of few
   * members that talk much can cost more: the day's limit can be passed by that difference, for what is under way.
   */
  async #rerun(sampled: Sampled & { readonly costMicros: number }): Promise<ShadowResult> {
    const { plan, settings, drawn, costMicros } = sampled;
    const { counters, run } = this.#parts;
    const plans = drawn.masks.map((mask) => this.#planFor(sampled, mask));
    const day = this.#day();
    if (plan.cluster !== plan.promptInstance) {
      const isFirst = await counters.reserve(`shadow:${day}:${plan.system}:${plan.cluster}`, 1, 1, DAY_MS);
      if (!isFirst) return 'repeated';
    }
    const account = `shadow:${day}:${plan.system}`;
    const reserved = costMicros * drawn.masks.length;
    if (!(await counters.reserve(account, reserved, Math.round(settings.usdPerDay * 1e6), DAY_MS)))
      return 'budget';
    const options = { share: sampled.share, signal: this.#control.signal, stream: false, trace: false };
    const results = await Promise.all(plans.map((one) => run(one, sampled.task, options)));
    const spent = results.reduce((sum, { outcome }) => sum + outcome.costMicros, 0);
    await counters.settle(account, spent - reserved);
    return 'run';
  }

  #planFor({ plan, design, drawn }: Sampled, mask: number): Plan {
    const { merged: _whole, ...common } = plan;
    const merged = this.#parts.mergedFor(plan.system, mask);
    const members = plan.members.filter((_member, bit) => Math.floor(mask / 2 ** bit) % 2 === 1);
    return {
      ...common,
      id: this.#parts.newId(),
      members,
      ...(merged && { merged }),
      mask,
      design: design.design,
      parent: plan.id,
      choice: { source: 'design', propensity: drawn.propensity },
    };
  }

  /** UTC day. */
  #day(): string {
    return new Date(this.#parts.clock.now()).toISOString().slice(0, 10);
  }
}
