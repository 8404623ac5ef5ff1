/**
 * One model of a server: a base with a fresh adapter, and the numbered operations on it. Every change of it has a
 * sequence number; the caller gives it, since it is in the journal before it is used. A submission is acknowledged
 * before the next one goes out: some servers work in order of arrival.
 */
import type { TSchema, Static } from 'typebox';
import { ConsortError } from '../../contract/errors.ts';
import { decodePassed, encodePass, type Encoded, type Pass } from './codec.ts';
import { awaitResult, LostPromise } from './futures.ts';
import { statusError, type Reply, type TrainerHttp } from './http.ts';
import type { Session } from './session.ts';
import type { Adam, Dialect, RunOptions } from './trainer.ts';
import {
  Anything,
  Checkpoints,
  ModelInfo,
  ModelMade,
  parseJson,
  Reader,
  Saved,
  Stepped,
  Submitted,
  type Passed,
} from './wire.ts';

const submittedReader = new Reader(Submitted);
const madeReader = new Reader(ModelMade);
const infoReader = new Reader(ModelInfo);
const steppedReader = new Reader(Stepped);
const savedReader = new Reader(Saved);
const checkpointsReader = new Reader(Checkpoints);
const anythingReader = new Reader(Anything);

/** How often an operation whose promise the server lost is submitted again. */
const MAX_RESUBMISSIONS = 3;

/** What was acknowledged and what it takes to send it again. */
export interface Ticket {
  readonly operation: string;
  readonly requestId: string;
  readonly encoded: Encoded;
}

type Traits = Pick<Dialect, 'codec' | 'replaySafe'>;

export class Model {
  readonly id: string;
  readonly #http: TrainerHttp;
  readonly #traits: Traits;

  constructor(http: TrainerHttp, id: string, traits: Traits) {
    this.#http = http;
    this.id = id;
    this.#traits = traits;
  }

  /** Makes one with fresh weights; its next sequence number is 1. */
  static async create(
    http: TrainerHttp,
    session: Session,
    options: RunOptions,
    traits: Traits,
    modelSeq = 1,
  ): Promise<Model> {
    const { baseModel, rank, seed } = options;
    const body = {
      session_id: session.id,
      model_seq_id: modelSeq,
      base_model: baseModel,
      lora_config: { rank, seed, train_unembed: false, train_mlp: true, train_attn: true },
      type: 'create_model',
    };
    const encoded = jsonOf('create_model', body);
    // It is not numbered, so a second one would be a second model: once, and a session that dies cleans up.
    const ticket = await submit(http, encoded, 'create_model', false);
    const reply = await awaitResult(http, ticket.requestId, 'create_model');
    const made = madeReader.read(reply.json(), 'create_model');
    return new Model(http, made.model_id, traits);
  }

  /** Whether the server still knows it. A server that restarted may say yes and fail at the first operation. */
  async isKnown(): Promise<boolean> {
    try {
      infoReader.read(await this.#http.ask('get_info', { model_id: this.id, type: 'get_info' }), 'get_info');
      return true;
    } catch (error) {
      if (ConsortError.is(error) && (error.code === 'trainer_lost' || error.status === 410)) return false;
      throw error;
    }
  }

  /** Submits a pass; acknowledged when it resolves. */
  async submitPass(pass: Omit<Pass, 'modelId'>): Promise<Ticket> {
    const encoded = encodePass(this.#traits.codec, { ...pass, modelId: this.id });
    return submit(
      this.#http,
      encoded,
      pass.forwardOnly ? 'forward' : 'forward_backward',
      this.#traits.replaySafe,
    );
  }

  async passed(ticket: Ticket): Promise<Passed> {
    const reply = await this.#result(ticket);
    return decodePassed(contentTypeOf(reply), reply.body, () => reply.json());
  }

  async optimise(seq: number, adam: Adam): Promise<Record<string, unknown>> {
    const { learningRate, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weightDecay = 0, gradClipNorm = 0 } = adam;
    const adamParams = {
      learning_rate: learningRate,
      beta1,
      beta2,
      eps,
      weight_decay: weightDecay,
      grad_clip_norm: gradClipNorm,
    };
    const body = { model_id: this.id, adam_params: adamParams, seq_id: seq, type: 'optim_step' };
    return (await this.#call('optim_step', body, steppedReader)).metrics ?? {};
  }

  /** Only as the first operation of a model. */
  async load(seq: number, path: string): Promise<void> {
    const body = { model_id: this.id, path, optimizer: true, seq_id: seq, type: 'load_weights' };
    await this.#call('load_weights', body, anythingReader);
  }

  /** Saves for training (`weights`) or for sampling. A name that is there already is taken for ours. */
  async save(kind: 'weights' | 'sampler', seq: number, name: string): Promise<string> {
    const operation = kind === 'weights' ? 'save_weights' : 'save_weights_for_sampler';
    const body = { model_id: this.id, path: name, seq_id: seq, type: operation };
    const usual = `tinker://${this.id}/${kind === 'weights' ? 'weights' : 'sampler_weights'}/${name}`;
    try {
      return (await this.#call(operation, body, savedReader)).path ?? usual;
    } catch (error) {
      if (!ConsortError.is(error) || error.code !== 'trainer_conflict') throw error;
      const path = await this.#find(kind, name);
      // Taken and not there: the server died while it saved, and this model can never use the name again.
      if (path === undefined) {
        const begun = `${operation}: ${name} was begun and never finished`;
        throw new ConsortError('trainer_lost', [begun], { cause: error });
      }
      return path;
    }
  }

  async #find(kind: 'weights' | 'sampler', name: string): Promise<string | undefined> {
    const listed = await this.#http.ask(`training_runs/${encodeURIComponent(this.id)}/checkpoints`);
    const { checkpoints } = checkpointsReader.read(listed, 'checkpoints');
    const isSampler = (path: string) => path.includes('/sampler_weights/');
    return checkpoints
      .filter(({ checkpoint_id: id }) => id === name || id.endsWith(`/${name}`))
      .map(({ tinker_path: path }) => path ?? '')
      .find((path) => path !== '' && isSampler(path) === (kind === 'sampler'));
  }

  /** Best effort: frees the adapter's place. */
  async unload(): Promise<void> {
    const encoded = jsonOf('unload_model', { model_id: this.id, type: 'unload_model' });
    const ticket = await submit(this.#http, encoded, 'unload_model', false);
    await awaitResult(this.#http, ticket.requestId, 'unload_model');
  }

  async #call<S extends TSchema>(operation: string, body: object, reader: Reader<S>): Promise<Static<S>> {
    const isNumbered = operation === 'optim_step';
    const ticket = await submit(
      this.#http,
      jsonOf(operation, body),
      operation,
      isNumbered && this.#traits.replaySafe,
    );
    const reply = await this.#result(ticket);
    return reader.read(parseJson(reply.body.toString('utf8'), operation), operation);
  }

  async #result(first: Ticket): Promise<Reply> {
    let ticket = first;
    for (let attempt = 0; ; attempt++) {
      try {
        return await awaitResult(this.#http, ticket.requestId, ticket.operation);
      } catch (error) {
        if (!(error instanceof LostPromise)) throw error;
        if (!this.#traits.replaySafe || attempt === MAX_RESUBMISSIONS) {
          throw new ConsortError('trainer_lost', [ticket.operation], { cause: error });
        }
        ticket = await submit(this.#http, ticket.encoded, ticket.operation, true);
      }
    }
  }
}

const jsonOf = (path: string, body: object): Encoded => ({
  path,
  contentType: 'application/json',
  body: Buffer.from(JSON.stringify(body)),
});

const contentTypeOf = ({ headers }: Reply): string => String(headers['content-type'] ?? '');

/** @param isRepeatable whether the server carries out the same submission once, however often it comes */
async function submit(
  http: TrainerHttp,
  encoded: Encoded,
  operation: string,
  isRepeatable: boolean,
): Promise<Ticket> {
  const send = { method: 'POST', ...encoded } as const;
  const reply = await (isRepeatable ? http.persist(send) : http.exchange(send));
  if (reply.status !== 200 && reply.status !== 202) throw statusError(reply, operation);
  const { request_id: requestId } = submittedReader.read(reply.json(), operation);
  return { operation, requestId, encoded };
}
