/**
 * Does the fleet serve these weights? Every replica computes the log-probs of fixed prompts; they must be those of the
 * trainer's forward pass, up to the difference of two engines, and must not be those of the base model, which an engine
 * that ignores a broken adapter serves without a word.
 */
import { ConsortError } from '../../contract/errors.ts';
import type { ServingFleet } from '../serving/fleet.ts';

/** A fixed prompt as token ids, and what the trainer's forward pass gives for it. */
export interface ProbePrompt {
  readonly tokens: readonly number[];
  /** Natural log-probability of each token given those before it; null for the first. */
  readonly trainer: readonly (number | null)[];
}

export interface ProbeLimits {
  /** Most that the mean distance to the trainer may be, in nats a token. */
  readonly mostGap: number;
  /** Least that the mean distance to the base must be: above the noise of one engine, below any training step. */
  readonly leastShift: number;
}

export const PROBE_LIMITS: ProbeLimits = { mostGap: 0.05, leastShift: 1e-3 };

/** Mean absolute distances in nats a token. */
export interface ProbeFinding {
  readonly replica: string;
  readonly tokens: number;
  readonly gap: number;
  readonly shift: number;
}

/**
 * Probes every replica with every prompt, one prompt at a time.
 *
 * @returns a finding a replica, all within the limits
 * @throws `probe_failed` naming the first replica that is not, `serving_*`
 */
export async function probeRelease(
  fleet: ServingFleet,
  servedAs: string,
  prompts: readonly ProbePrompt[],
  limits: ProbeLimits = PROBE_LIMITS,
): Promise<ProbeFinding[]> {
  const sums = new Map(fleet.replicas.map((replica) => [replica, { tokens: 0, gap: 0, shift: 0 }]));
  for (const { tokens, trainer } of prompts) {
    const served = await fleet.probe(servedAs, tokens);
    const base = await fleet.probe(fleet.base, tokens);
    for (const { replica, logprobs } of served) {
      const sum = sums.get(replica);
      const ofBase = base.find((probe) => probe.replica === replica)?.logprobs;
      if (!sum) throw new TypeError(`a probe of an unknown replica ${replica}`);
      sum.gap += distance(logprobs, trainer);
      sum.shift += distance(logprobs, ofBase ?? []);
      sum.tokens += tokens.length - 1;
    }
  }
  const findings = [...sums].map(([replica, { tokens, gap, shift }]) => {
    return { replica, tokens, gap: gap / tokens, shift: shift / tokens };
  });
  for (const finding of findings) check(finding, servedAs, limits);
  return findings;
}

/** Sum of absolute differences after the first token; NaN when one of them is missing, which is within no limit. */
function distance(a: readonly (number | null)[], b: readonly (number | null)[]): number {
  let sum = a.length === b.length ? 0 : NaN;
  for (let i = 1; i < a.length; i++) sum += Math.abs((a[i] ?? NaN) - (b[i] ?? NaN));
  return sum;
}

function check({ replica, tokens, gap, shift }: ProbeFinding, servedAs: string, limits: ProbeLimits): void {
  const refuse = (reason: string) => new ConsortError('probe_failed', [replica, servedAs, reason]);
  if (!(tokens > 0)) throw refuse('the probe has no tokens');
  // First, because base weights are far from the trainer's too, and this says which error it is.
  if (!(shift >= limits.leastShift)) {
    throw refuse(
      `it answers as the base model does (${shift.toExponential(1)} nats a token, ${tokens} tokens)`,
    );
  }
  if (!(gap <= limits.mostGap)) {
    const most = `at most ${limits.mostGap}`;
    throw refuse(
      `its log-probs are ${gap.toFixed(4)} nats a token from the trainer’s, ${most} (${tokens} tokens)`,
    );
  }
}
