/**
 * A server of the Tinker protocol for tests, with a model small enough to reason about (`toy-model.ts`). It keeps every step that each model took, so a test can tell whether one was taken twice. Its replies are
 * checked against recordings of SkyRL 0.4.0 (test/policy/trainers/server.test.ts).
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PROTOBUF, type CodecName } from '../../src/policy/trainers/codec.ts';
import { adapterArchive } from '../policy/trainers/archive-bytes.ts';
import { readPass, writePassed, type PassBody } from '../policy/trainers/pass-bytes.ts';
import { hashOf, ToyModel, type Reduction } from '../policy/trainers/toy-model.ts';

export interface FakeOptions {
  readonly codec: CodecName;
  readonly reduction: Reduction;
  /** Whether the same number with the same payload is carried out once; hatchery carries it out each time. */
  readonly replaySafe: boolean;
  /** Whether optim_step tells the norm of its gradient. */
  readonly tellsNorm: boolean;
  readonly baseModel: string;
}

export interface Heard {
  readonly index: number;
  readonly path: string;
  readonly model: string | undefined;
  readonly seq: number | undefined;
}

/** What a test does to a request: nothing, lose it before or after it is carried out, or answer it itself. */
export type Fate = undefined | 'lost' | 'unanswered' | { readonly status: number; readonly body: object };

interface Done {
  readonly status: number;
  readonly body: object | Buffer;
  /** Of bytes. */
  readonly type?: string;
}

/** What a model was when it was saved. */
export type Checkpoint = Pick<ToyModel, 'weights' | 'steps'>;

type Body = Record<string, unknown>;

const detail = (status: number, text: string): Done => ({ status, body: { detail: text } });

export class FakeTinker {
  readonly options: FakeOptions;
  readonly heard: Heard[] = [];
  readonly models = new Map<string, ToyModel>();
  /** Asked before a request is carried out. */
  fate: (heard: Heard) => Fate | Promise<Fate> = () => undefined;
  /** How many polls of each future say "not yet", and how. */
  delay: { polls: number; style: '408' | 'try_again' } = { polls: 0, style: '408' };
  /** What the download of any archive holds, unless it is made of the checkpoint. */
  archive: Buffer = adapterArchive([0.1, 0, 0, 0.2]);
  archiveOf: (checkpoint: Checkpoint) => Buffer = () => this.archive;
  /** Where the archive's redirect leads; the server's own download when empty. */
  redirect = '';
  /** Headers of the last download. */
  downloadHeaders: IncomingMessage['headers'] = {};
  readonly #sessions = new Set<string>();
  readonly #futures = new Map<string, { done: Done; polls: number }>();
  readonly #numbers = new Map<string, { path: string; hash: string; requestId: string }>();
  readonly #checkpoints = new Map<string, Checkpoint>();
  #server: Server | undefined;
  #port = 0;
  #ids = 0;

  constructor(options: Partial<FakeOptions> = {}) {
    const defaults: FakeOptions = {
      codec: 'json',
      reduction: 'sum',
      replaySafe: true,
      tellsNorm: true,
      baseModel: 'tiny',
    };
    this.options = { ...defaults, ...options };
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async listen(): Promise<void> {
    this.#server = createServer((request, response) => void this.#serve(request, response));
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** As `kill -9`: connections break, answers on their way are lost. */
  async kill(): Promise<void> {
    const server = this.#server;
    server?.closeAllConnections();
    if (server) await new Promise((resolve) => server.close(resolve));
  }

  /** Starts again: `engine` has its database and lost the models in memory, as SkyRL; `nothing` lost nothing. */
  async restart(lost: 'engine' | 'nothing'): Promise<void> {
    if (lost === 'engine') this.models.clear();
    await this.listen();
  }

  /** The steps that the newest model which was trained has taken, in order. */
  get steps(): readonly string[] {
    return [...this.models.values()].toReversed().find(({ steps }) => steps.length > 0)?.steps ?? [];
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const path = (request.url ?? '').replace('/api/v1/', '');
    const raw = Buffer.concat(chunks);
    const isBinary = request.headers['content-type'] === PROTOBUF;
    const body = isBinary ? readPass(raw) : raw.length > 0 ? (JSON.parse(raw.toString()) as Body) : {};
    const heard: Heard = {
      index: this.heard.length,
      path,
      model: body['model_id'] as string | undefined,
      seq: body['seq_id'] as number | undefined,
    };
    this.heard.push(heard);
    const fate = await this.fate(heard);
    if (fate === 'lost') return void request.socket.destroy();
    const done = typeof fate === 'object' ? fate : this.#answer(path, body, isBinary, request);
    if (fate === 'unanswered') return void request.socket.destroy();
    send(response, done);
  }

  #answer(path: string, body: Body, isBinary: boolean, request: IncomingMessage): Done {
    const [first = ''] = path.split('/', 1);
    if (first === 'training_runs') return this.#checkpoint(path, request);
    const model = this.models.get(String(body['model_id']));
    if ('model_id' in body && !model && !this.#known.has(String(body['model_id']))) {
      return detail(404, 'Model not found');
    }
    switch (path) {
      case 'healthz':
        return { status: 200, body: { status: 'ok' } };
      case 'get_server_capabilities':
        return { status: 200, body: { supported_models: [{ model_name: this.options.baseModel }] } };
      case 'create_session':
        return this.#createSession();
      case 'session_heartbeat':
        if (!this.#sessions.has(String(body['session_id']))) return detail(404, 'Session not found');
        return { status: 200, body: { type: 'session_heartbeat' } };
      case 'retrieve_future':
        return this.#retrieve(String(body['request_id']));
      case 'get_info': {
        const data = {
          base_model: this.options.baseModel,
          lora_config: { rank: 2, seed: null },
          model_name: 'tiny',
        };
        return { status: 200, body: { model_id: body['model_id'], status: 'created', model_data: data } };
      }
      case 'create_model':
        return this.#createModel(body);
      case 'forward':
      case 'forward_backward':
        if (isBinary !== (this.options.codec === 'protobuf')) return detail(415, 'another codec');
        return this.#numbered(path, body, () => this.#pass(body, path === 'forward'));
      case 'optim_step':
        return this.#numbered(path, body, () => this.#optimise(body));
      default:
        return this.#keep(path, body, model);
    }
  }

  /** Names of models that the database has, whatever memory has. */
  readonly #known = new Set<string>();

  #createSession(): Done {
    const id = `session_${++this.#ids}`;
    this.#sessions.add(id);
    const messages = { info_message: null, warning_message: null, error_message: null };
    return { status: 200, body: { type: 'create_session', ...messages, session_id: id } };
  }

  /** Ends a session: its heartbeat is answered with 404. */
  endSessions(): void {
    this.#sessions.clear();
  }

  #createModel(body: Body): Done {
    if (!this.#sessions.has(String(body['session_id']))) return detail(404, 'Session not found');
    const id = `model_${++this.#ids}`;
    this.#known.add(id);
    this.models.set(id, new ToyModel());
    const config = { rank: 2, seed: 7 };
    const made = { model_id: id, base_model: this.options.baseModel };
    const full = { ...config, alpha: 32, train_attn: true, train_mlp: true, train_unembed: false };
    const requestId = this.#promise({ status: 200, body: { ...made, lora_config: full } });
    return { status: 200, body: { ...made, lora_config: config, status: 'created', request_id: requestId } };
  }

  #promise(done: Done): string {
    const id = String(++this.#ids);
    this.#futures.set(id, { done, polls: 0 });
    return id;
  }

  #submitted(requestId: string): Done {
    return { status: 200, body: { future_id: requestId, status: 'pending', request_id: requestId } };
  }

  #retrieve(id: string): Done {
    const future = this.#futures.get(id);
    if (!future) return detail(404, 'Future not found');
    future.polls += 1;
    if (future.polls > this.delay.polls) return future.done;
    if (this.delay.style === '408') return detail(408, 'Timeout waiting for result');
    return { status: 200, body: { type: 'try_again', request_id: id, queue_state: 'active' } };
  }

  /** Carries out an operation under its number. */
  #numbered(path: string, body: Body, work: () => Done): Done {
    const key = `${String(body['model_id'])}:${String(body['seq_id'])}`;
    const { seq_id: _seq, ...payload } = body;
    const hash = hashOf(payload);
    const before = this.#numbers.get(key);
    if (before && (before.hash !== hash || before.path !== path)) {
      return detail(409, 'Training request sequence number was reused');
    }
    if (before && !this.options.replaySafe) work();
    const requestId = before?.requestId ?? this.#promise(work());
    this.#numbers.set(key, { path, hash, requestId });
    return this.#submitted(requestId);
  }

  #live(body: Body): ToyModel | undefined {
    return this.models.get(String(body['model_id']));
  }

  #pass(body: Body, isForwardPath: boolean): Done {
    const model = this.#live(body);
    if (!model) return detail(400, 'Model not loaded (likely stale request from previous server)');
    const pass = body as unknown as PassBody;
    const forwardOnly = isForwardPath || pass.forward_only === true;
    const { data } = pass.forward_backward_input ?? pass.forward_input ?? { data: [] };
    const outputs = model.pass(data, this.options.reduction, forwardOnly);
    if (this.options.codec === 'json') return { status: 200, body: jsonPassed(outputs) };
    return { status: 200, body: writePassed(outputs), type: PROTOBUF };
  }

  #optimise(body: Body): Done {
    const model = this.#live(body);
    if (!model) return detail(400, 'Model not loaded (likely stale request from previous server)');
    const { learning_rate: rate = 0 } = (body['adam_params'] ?? {}) as { learning_rate?: number };
    const norm = model.optimise(rate, this.options.reduction);
    const metrics = {
      ...(this.options.tellsNorm && { 'skyrl.ai/grad_norm': norm }),
      'skyrl.ai/learning_rate': rate,
    };
    return { status: 200, body: { metrics } };
  }

  /** Saving, loading, unloading. */
  #keep(path: string, body: Body, model: ToyModel | undefined): Done {
    const id = String(body['model_id']);
    if (path === 'unload_model') {
      this.models.delete(id);
      this.#known.delete(id);
      const requestId = this.#promise({ status: 200, body: { model_id: id, status: 'unloaded' } });
      return { status: 200, body: { request_id: requestId, model_id: id } };
    }
    if (!model) return this.#submitted(this.#promise(detail(400, 'Model not loaded')));
    if (path === 'load_weights') return this.#load(String(body['path']), model, body['seq_id']);
    const kind = path === 'save_weights' ? 'weights' : 'sampler_weights';
    const name = String(body['path']);
    const key = `tinker://${id}/${kind}/${name}`;
    if (this.#checkpoints.has(key))
      return detail(409, `Checkpoint '${name}' already exists for model '${id}'`);
    model.isFresh = false;
    this.#checkpoints.set(key, { weights: new Map(model.weights), steps: [...model.steps] });
    const shown = kind === 'weights' ? key : `tinker://${id}/${name}`;
    const extra = kind === 'weights' ? {} : { sampling_session_id: null };
    return this.#submitted(this.#promise({ status: 200, body: { path: shown, type: path, ...extra } }));
  }

  #load(path: string, model: ToyModel, seq: unknown): Done {
    if (!model.isFresh) return detail(400, `LoadWeights is not permitted with seq_id ${String(seq)}`);
    const saved = this.#checkpoints.get(path);
    if (!saved) return detail(404, 'Checkpoint not found');
    Object.assign(model, { weights: new Map(saved.weights), steps: [...saved.steps], isFresh: false });
    return this.#submitted(this.#promise({ status: 200, body: { type: 'load_weights' } }));
  }

  #checkpoint(path: string, request: IncomingMessage): Done {
    const [, model = '', , id = '', action = ''] = path.split('/');
    if (id === '') {
      const checkpoints = [...this.#checkpoints.keys()]
        .filter((key) => key.startsWith(`tinker://${model}/`))
        .map((key) => ({
          checkpoint_id: key.split('/').at(-1),
          checkpoint_type: key.includes('/sampler_weights/') ? 'sampler' : 'training',
          time: '2026-12-01T00:00:00',
          tinker_path: key,
        }));
      return { status: 200, body: { checkpoints } };
    }
    const checkpoint = this.#checkpoints.get(`tinker://${model}/sampler_weights/${id}`);
    if (!checkpoint) {
      return detail(404, `Checkpoint not found: ${model}/${id}`);
    }
    if (action === 'download') {
      this.downloadHeaders = request.headers;
      return { status: 200, body: this.archiveOf(checkpoint), type: 'application/octet-stream' };
    }
    const own = `${this.url}/api/v1/training_runs/${model}/checkpoints/${id}/download`;
    return { status: 302, body: { location: this.redirect || own } };
  }
}

const tensor = (data: readonly number[]) => ({ data, dtype: 'float32', shape: [data.length] });

const jsonPassed = (outputs: readonly { logprobs: number[]; losses: number[] }[]) => ({
  loss_fn_output_type: 'scalar',
  loss_fn_outputs: outputs.map(({ logprobs, losses }) => ({
    elementwise_loss: tensor(losses),
    logprobs: tensor(logprobs),
  })),
  metrics: {},
});

function send(response: ServerResponse, { status, body, type }: Done): void {
  if (status === 302) {
    response.writeHead(302, { location: (body as { location: string }).location }).end();
  } else {
    response.writeHead(status, { 'content-type': type ?? 'application/json' });
    response.end(Buffer.isBuffer(body) ? body : JSON.stringify(body));
  }
}
