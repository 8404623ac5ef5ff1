/**
 * What must hold of numbers before they are sent and of those that come back. `JSON.stringify` writes NaN and ±∞ as
 * null, and servers pad short arrays with zeros: neither would be noticed later.
 */
import { ConsortError } from '../../contract/errors.ts';
import type { Gap } from './trainer.ts';
import type { Passed, WireDatum } from './wire.ts';

/** Nats a token between trainer and serving fleet on a policy that was just sampled; more is a mistake. */
export const LARGEST_GAP = 0.01;

/** @throws trainer_not_finite; RangeError when the arrays of a datum have different lengths */
export function assertSendable(data: readonly WireDatum[]): void {
  for (const { model_input, loss_fn_inputs } of data) {
    const { length } = model_input.chunks[0].tokens;
    for (const [name, tensor] of Object.entries(loss_fn_inputs)) {
      if (tensor.data.length !== length)
        throw new RangeError(`${tensor.data.length} ${name} for ${length} tokens`);
      assertFinite(tensor.data, name);
    }
    if (!model_input.chunks[0].tokens.every(Number.isSafeInteger)) {
      throw new ConsortError('trainer_not_finite', ['what is no whole number', 'token ids']);
    }
  }
}

/** @throws trainer_not_finite */
export function assertFinite(
  numbers: readonly unknown[],
  name: string,
): asserts numbers is readonly number[] {
  const odd = numbers.find((number) => typeof number !== 'number' || !Number.isFinite(number));
  if (odd !== undefined || numbers.includes(undefined)) {
    throw new ConsortError('trainer_not_finite', [String(odd), name]);
  }
}

/** The log-probs of a pass, one array a datum, of the datum's length. @throws trainer_malformed, trainer_not_finite */
export function logprobsOf(passed: Passed, data: readonly WireDatum[]): number[][] {
  const { loss_fn_outputs: outputs } = passed;
  if (outputs.length !== data.length) {
    const counts = `${outputs.length} outputs for ${data.length} datums`;
    throw new ConsortError('trainer_malformed', ['forward_backward', counts]);
  }
  return outputs.map(({ logprobs }, index) => {
    const expected = data[index]?.model_input.chunks[0].tokens.length;
    if (logprobs.data.length !== expected) {
      const counts = `${logprobs.data.length} log-probs for ${expected} tokens`;
      throw new ConsortError('trainer_malformed', ['forward_backward', counts]);
    }
    assertFinite(logprobs.data, 'log-probs of the trainer');
    return [...logprobs.data];
  });
}

/** Σ of the token losses; null when the server gives none. @throws trainer_not_finite */
export function lossOf({ loss_fn_outputs: outputs }: Passed): number | null {
  let sum = 0;
  for (const { elementwise_loss: losses } of outputs) {
    if (!losses) return null;
    assertFinite(losses.data, 'losses of the trainer');
    for (const loss of losses.data) sum += loss;
  }
  return sum;
}

/** Running sums of the differences on the trained tokens. */
export class GapMeter {
  #tokens = 0;
  #sum = 0;
  #k3 = 0;
  #largest = 0;

  /** @param train the trainer's log-probs, one array a datum; tokens without advantage are not trained */
  add(train: readonly (readonly number[])[], data: readonly WireDatum[]): void {
    for (const [index, logprobs] of train.entries()) {
      const { logprobs: behaviour, advantages } = data[index]?.loss_fn_inputs ?? {};
      for (const [position, logprob] of logprobs.entries()) {
        if (advantages?.data[position]) this.#take(logprob - (behaviour?.data[position] ?? 0));
      }
    }
  }

  #take(difference: number): void {
    const ratio = Math.exp(difference);
    this.#tokens += 1;
    this.#sum += difference;
    this.#k3 += ratio - 1 - difference;
    this.#largest = Math.max(this.#largest, ratio);
  }

  get gap(): Gap {
    const tokens = this.#tokens;
    const per = Math.max(1, tokens);
    return { tokens, mean: this.#sum / per, k3: this.#k3 / per, largestRatio: this.#largest };
  }
}

/** @throws trainer_off_policy when the two policies that should be one are not */
export function assertOnPolicy(gap: Gap, largest: number): void {
  if (Math.abs(gap.mean) < largest && gap.k3 < largest) return;
  const worse = Math.max(Math.abs(gap.mean), gap.k3);
  throw new ConsortError('trainer_off_policy', [worse.toPrecision(3), largest]);
}

/** A server's metrics, without what is no finite number. */
export function metricsOf(
  metrics: Readonly<Record<string, unknown>> | null | undefined,
): Record<string, number> {
  return Object.fromEntries(
    Object.entries(metrics ?? {}).filter(
      (entry): entry is [string, number] => typeof entry[1] === 'number' && Number.isFinite(entry[1]),
    ),
  );
}

/** What is not finite comes as null or as text. @throws trainer_not_finite: the weights may be so too */
export function assertMetrics(metrics: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(metrics)) {
    const isOdd =
      typeof value === 'number'
        ? !Number.isFinite(value)
        : /^(?:null|-?nan|[+-]?inf.*)$/i.test(String(value));
    if (isOdd)
      throw new ConsortError('trainer_not_finite', [String(value), `metrics of the optimiser (${name})`]);
  }
}
