/**
 * Servers disagree about how the losses of tokens are reduced to the one that is descended, and nothing in a reply
 * says which way it was. A wrong guess trains silently for another objective. So before a run its server is asked, on
 * a model of its own that is thrown away: gradients of known data are compared, with a learning rate that moves nothing.
 * What does not match a known way exactly is refused.
 *
 * X is one datum with one trained token of advantage 1. The gradient norms, as multiples of X's:
 *
 *                                           sum   mean a datum, then over datums   mean over a request's tokens
 *   longer: X with a second trained token,   1                 1/2                             1/2
 *           later and of advantage 0
 *   beside: X and a datum of three trained   1                 1/2                             1/4
 *           tokens of advantage 0, together
 *   apart:  the same two in two requests     1                 1/2                              1
 *   twice:  as apart, and X submitted twice  1                 1/2                              1
 *           under one number; else it is     2                 2/3                              2
 */
import { ConsortError } from '../../contract/errors.ts';
import type { CodecName } from './codec.ts';
import { logprobsOf } from './guards.ts';
import type { TrainerHttp } from './http.ts';
import { Model, type Ticket } from './model.ts';
import { Session } from './session.ts';
import type { Dialect, RunOptions } from './trainer.ts';
import type { Passed, WireDatum } from './wire.ts';

/** Relative error of a norm that float32 and a different batch shape may cause. */
const TOLERANCE = 0.02;
/** As good as none: the weights stay where they are. hatchery refuses zero. */
const ADAM = { learningRate: 1e-30 } as const;
/** Near the log-prob of a random token, so that the ratio is tame; the same in all cases. */
const BEHAVIOUR = -6;
const LOSS = { name: 'importance_sampling' } as const;

type Case = 'longer' | 'beside' | 'apart' | 'twice';
export type Ratios = Readonly<Record<Case, number>>;

/** What an operator vouches for, of a server that tells no gradient norm. */
export type Assumed = Pick<Dialect, 'reduction' | 'sendWeights' | 'replaySafe'>;

/** @throws trainer_dialect when the server is none that training is correct with */
export async function selfTest(http: TrainerHttp, options: RunOptions, assumed?: Assumed): Promise<Dialect> {
  const session = await Session.open(http, `${options.run}-self-test`);
  try {
    const withWeights = assumed?.sendWeights ?? true;
    const codec = await codecOf(http, session, options, withWeights);
    return await measure(http, session, options, { codec, withWeights }).catch((error: unknown) => {
      if (error instanceof NoNorm && assumed) return { ...assumed, codec };
      throw error instanceof NoNorm ? new ConsortError('trainer_dialect', [error.message]) : error;
    });
  } finally {
    session.close();
  }
}

/** One scratch model: the ratios decide. Weights are sent, as a server that takes means needs them. */
async function measure(
  http: TrainerHttp,
  session: Session,
  options: RunOptions,
  { codec, withWeights }: { readonly codec: CodecName; readonly withWeights: boolean },
): Promise<Dialect> {
  const model = await Model.create(http, session, options, { codec, replaySafe: true }, 2);
  try {
    const test = new GradientTest(model, withWeights);
    const alone = await test.norm([[target()]]);
    const ratioOf = async (requests: WireDatum[][], repeatFirst = false) =>
      (await test.norm(requests, repeatFirst)) / alone;
    const ratios: Ratios = {
      longer: await ratioOf([[longer()]]),
      beside: await ratioOf([[target(), silent()]]),
      apart: await ratioOf([[target()], [silent()]]),
      twice: await ratioOf([[target()], [silent()]], true),
    };
    return { ...judge(ratios), sendWeights: withWeights, codec };
  } finally {
    await model.unload().catch(() => undefined);
  }
}

/** Exported for its test: what the ratios say. @throws trainer_dialect */
export function judge(ratios: Ratios): Pick<Dialect, 'reduction' | 'replaySafe'> {
  const is = (name: Case, expected: number) => Math.abs(ratios[name] - expected) <= TOLERANCE * expected;
  const all = (expected: number) => is('longer', expected) && is('beside', expected) && is('apart', expected);
  if (all(1) && (is('twice', 1) || is('twice', 2))) return { reduction: 'sum', replaySafe: is('twice', 1) };
  if (all(1 / 2) && (is('twice', 1 / 2) || is('twice', 2 / 3))) {
    return { reduction: 'datum-mean', replaySafe: is('twice', 1 / 2) };
  }
  const seen = Object.entries(ratios).map(([name, ratio]) => `${name} ${ratio.toPrecision(3)}`);
  throw new ConsortError('trainer_dialect', [
    `its reduction of losses is neither a sum nor a mean over datums (${seen.join(', ')})`,
  ]);
}

/** The server does not tell what the test compares. */
class NoNorm extends Error {
  override readonly name = 'NoNorm';
}

/** Sends passes and an optimiser step that changes nothing, and reads the norm of the gradient that it had. */
class GradientTest {
  readonly #model: Model;
  readonly #withWeights: boolean;
  #seq = 0;

  constructor(model: Model, withWeights: boolean) {
    this.#model = model;
    this.#withWeights = withWeights;
  }

  /** @param repeatFirst sends the first request a second time under its own number */
  async norm(requests: readonly WireDatum[][], repeatFirst = false): Promise<number> {
    const tickets: Ticket[] = [];
    for (const [index, data] of requests.entries()) {
      this.#seq += 1;
      const sent = this.#withWeights ? data : data.map(bare);
      const pass = { seq: this.#seq, data: sent, loss: LOSS, forwardOnly: false };
      tickets.push(await this.#model.submitPass(pass));
      if (repeatFirst && index === 0) await this.#model.submitPass(pass);
    }
    for (const [index, ticket] of tickets.entries()) {
      checkLoss(await this.#model.passed(ticket), requests[index] ?? []);
    }
    this.#seq += 1;
    return gradientNorm(await this.#model.optimise(this.#seq, ADAM));
  }
}

/** Servers name it differently: `skyrl.ai/grad_norm`, `grad_norm:mean` … */
function gradientNorm(metrics: Readonly<Record<string, unknown>>): number {
  const found = Object.entries(metrics).find(([name]) =>
    /(?:^|[/._])(?:unclipped_)?grad_norm(?:$|:)/.test(name),
  );
  const norm = found?.[1];
  if (typeof norm !== 'number' || !(norm > 0)) {
    const names = Object.keys(metrics).join(', ') || 'none';
    throw new NoNorm(`optim_step tells no gradient norm (its metrics: ${names})`);
  }
  return norm;
}

/** The token losses must be those of importance sampling, −ρA, where the server tells them. */
function checkLoss(passed: Passed, data: readonly WireDatum[]): void {
  const logprobs = logprobsOf(passed, data);
  for (const [index, { elementwise_loss: losses }] of passed.loss_fn_outputs.entries()) {
    const { advantages } = data[index]?.loss_fn_inputs ?? {};
    for (const [position, loss] of losses?.data.entries() ?? []) {
      const advantage = advantages?.data[position] ?? 0;
      const expected = -Math.exp((logprobs[index]?.[position] ?? NaN) - BEHAVIOUR) * advantage;
      if (Math.abs(Number(loss) - expected) > TOLERANCE * Math.abs(expected) + 1e-6) {
        throw new ConsortError('trainer_dialect', [
          `the loss of a token is ${loss} where importance sampling has ${expected}`,
        ]);
      }
    }
  }
}

/** @param trained positions that are trained; the first of them has the advantage */
function datumOf(length: number, trained: readonly number[], advantage: number): WireDatum {
  // Small ids are in every vocabulary. The start is the same in all: a later token does not reach an earlier one.
  const ids = Array.from({ length: length + 1 }, (_, index) => 2 + ((index * 7) % 23));
  const at = (value: (position: number) => number) => ids.slice(1).map((_, position) => value(position));
  const tensor = (data: number[], dtype: 'int64' | 'float32') => ({
    data,
    dtype,
    shape: [length] as [number],
  });
  const isTrained = (position: number) => trained.includes(position);
  return {
    model_input: { chunks: [{ type: 'encoded_text', tokens: ids.slice(0, -1) }] },
    loss_fn_inputs: {
      target_tokens: tensor(ids.slice(1), 'int64'),
      logprobs: tensor(
        at((position) => (isTrained(position) ? BEHAVIOUR : 0)),
        'float32',
      ),
      advantages: tensor(
        at((position) => (position === trained[0] ? advantage : 0)),
        'float32',
      ),
      weights: tensor(
        at((position) => Number(isTrained(position))),
        'float32',
      ),
    },
  };
}

/** The same without weights: some servers refuse the key. */
function bare(datum: WireDatum): WireDatum {
  const { weights: _weights, ...inputs } = datum.loss_fn_inputs;
  return { ...datum, loss_fn_inputs: inputs };
}

const target = () => datumOf(6, [2], 1);
const longer = () => datumOf(12, [2, 9], 1);
const silent = () => datumOf(12, [4, 6, 8], 0);

/** Whether passes are taken as JSON: servers that only read protobuf say 415. */
async function codecOf(
  http: TrainerHttp,
  session: Session,
  options: RunOptions,
  withWeights: boolean,
): Promise<CodecName> {
  const model = await Model.create(http, session, options, { codec: 'json', replaySafe: true }, 1);
  try {
    const data = [withWeights ? target() : bare(target())];
    const pass = { seq: 1, data, loss: LOSS, forwardOnly: false };
    await model.passed(await model.submitPass(pass));
    return 'json';
  } catch (error) {
    if (ConsortError.is(error) && error.code === 'trainer_status' && error.message.includes('HTTP 415')) {
      return 'protobuf';
    }
    throw error;
  } finally {
    await model.unload().catch(() => undefined);
  }
}
