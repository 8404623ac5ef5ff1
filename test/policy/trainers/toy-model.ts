/**
 * A model small enough to reason about: the log-prob of a token is −6 plus a weight of its own, found by the tokens
 * before it, and an optimiser step adds the learning rate times the gradient. It keeps what it was trained on.
 */
import { createHash } from 'node:crypto';
import type { PassDatum } from './pass-bytes.ts';

export type Reduction = 'sum' | 'datum-mean' | 'request-mean';

export const hashOf = (value: unknown): string =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 12);

const total = (numbers: readonly number[] = []) => numbers.reduce((sum, number) => sum + number, 0);

export class ToyModel {
  weights = new Map<string, number>();
  /** Hashes of the payloads of each step taken. */
  steps: string[] = [];
  /** Whether nothing was asked of it yet. */
  isFresh = true;
  #gradient = new Map<string, number>();
  #datums = 0;
  #passes: string[] = [];

  /** Importance sampling: adds the gradient, unless it only looks. */
  pass(data: readonly PassDatum[], reduction: Reduction, forwardOnly: boolean) {
    this.isFresh = false;
    const all = data.reduce((sum, { loss_fn_inputs: inputs }) => sum + total(inputs['weights']?.data), 0);
    if (!forwardOnly) {
      this.#datums += data.length;
      this.#passes.push(hashOf(data));
    }
    return data.map((datum) => {
      const own = total(datum.loss_fn_inputs['weights']?.data);
      const divisor = { sum: 1, 'datum-mean': own, 'request-mean': all }[reduction];
      return this.#passDatum(datum, forwardOnly ? undefined : divisor);
    });
  }

  #passDatum({ model_input, loss_fn_inputs: inputs }: PassDatum, divisor: number | undefined) {
    const { tokens } = model_input.chunks[0];
    const keys = tokens.map(
      (_, at) => `${tokens.slice(0, at + 1).join(' ')}→${inputs['target_tokens']?.data[at]}`,
    );
    const logprobs = keys.map((key) => -6 + (this.weights.get(key) ?? 0));
    const losses = logprobs.map((logprob, at) => {
      const ratio = Math.exp(logprob - (inputs['logprobs']?.data[at] ?? 0));
      const gain = ratio * (inputs['advantages']?.data[at] ?? 0);
      const key = keys[at] ?? '';
      if (divisor !== undefined && gain !== 0) {
        this.#gradient.set(key, (this.#gradient.get(key) ?? 0) + gain / divisor);
      }
      return -gain;
    });
    return { logprobs, losses };
  }

  /** Gives the norm of the gradient. */
  optimise(rate: number, reduction: Reduction): number {
    const divisor = reduction === 'datum-mean' ? Math.max(1, this.#datums) : 1;
    const gradient = [...this.#gradient].map(([key, value]) => [key, value / divisor] as const);
    for (const [key, value] of gradient) this.weights.set(key, (this.weights.get(key) ?? 0) + rate * value);
    this.steps.push(this.#passes.join('+'));
    this.#gradient = new Map();
    this.#datums = 0;
    this.#passes = [];
    this.isFresh = false;
    return Math.hypot(...gradient.map(([, value]) => value));
  }
}
