/**
 * A vLLM server as far as a serving fleet sees it, as documented and as its source answers (0.10 to 0.33): adapters
 * are a list of this server alone, a name that exists is a 400, a path that is not there a 404, and without run-time
 * loading the routes do not exist. Log-probs are a function of the weights and the prompt.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface FakeAdapter {
  readonly rank: number;
  /** How far its log-probs are from the base's, at most. */
  readonly shift?: number;
}

/** What computes behind the routes, for tests that need answers; without one the fake makes numbers up. */
export interface FakeEngine {
  /** Of each token but the first; `path` is null for the base. */
  logprobs(path: string | null, tokens: readonly number[]): (number | null)[];
  /** The body of a whole answer, but for its envelope. */
  chat(path: string | null, body: Body): Promise<object>;
}

export interface FakeVllmOptions {
  readonly base?: string;
  readonly maxRank?: number;
  readonly apiKey?: string;
  /** VLLM_ALLOW_RUNTIME_LORA_UPDATING */
  readonly runtimeLoading?: boolean;
  /** Answers as versions before 2025 did: another envelope, 400 for whatever the engine refuses. */
  readonly legacy?: boolean;
  /** What lies on its file system, by path. */
  readonly files?: Readonly<Record<string, FakeAdapter>>;
  /** Loads whatever adapters are on the disk, and answers with them. */
  readonly engine?: FakeEngine;
}

interface Loaded {
  readonly path: string;
  readonly adapter: FakeAdapter;
}

/** A body as far as any route reads it. */
export interface Body {
  readonly lora_name?: string;
  readonly lora_path?: string;
  readonly load_inplace?: boolean;
  readonly model?: string;
  readonly prompt?: readonly number[];
  readonly prompt_logprobs?: number;
  readonly messages?: readonly { readonly content?: unknown }[];
  readonly seed?: number;
}

export class Failure {
  readonly status: number;
  readonly type: string;
  readonly message: string;

  constructor(status: number, type: string, message: string) {
    this.status = status;
    this.type = type;
    this.message = message;
  }
}

const fail = (status: number, type: string, message: string) => new Failure(status, type, message);

export class FakeVllm {
  readonly base: string;
  readonly requests: { readonly route: string; readonly body: Body }[] = [];
  readonly files: Map<string, FakeAdapter>;
  /** Serves the base under every adapter's name, as an engine with a broken adapter does. */
  silentBase = false;
  /** Takes requests and never answers. */
  deaf = false;
  /** Says yes to a load and does nothing. */
  forgetful = false;
  /** Is answered to everything while it is set. */
  broken: Failure | undefined;
  readonly #options: FakeVllmOptions;
  readonly #loaded = new Map<string, Loaded>();
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  static async start(options: FakeVllmOptions = {}): Promise<FakeVllm> {
    const fake = new FakeVllm(options);
    fake.#server.listen(0, '127.0.0.1');
    await once(fake.#server, 'listening');
    return fake;
  }

  private constructor(options: FakeVllmOptions) {
    this.#options = options;
    this.base = options.base ?? 'Qwen/Qwen3-27B';
    this.files = new Map(Object.entries(options.files ?? {}));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  names(): string[] {
    return [...this.#loaded.keys()];
  }

  /** Adapters that were loaded at run time do not survive a restart. */
  restart(): void {
    this.#loaded.clear();
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  /** What an engine with these weights computes; the trainer's forward pass gives the same. */
  logprobs(path: string | null, tokens: readonly number[]): (number | null)[] {
    const { engine } = this.#options;
    if (engine) return engine.logprobs(path, tokens);
    const shift = path === null ? 0 : (this.files.get(path)?.shift ?? 0.5);
    return tokens.map((_, index) => {
      if (index === 0) return null;
      const before = tokens.slice(0, index + 1);
      return -1 - share(['base', ...before]) - shift * share([path ?? '', ...before]);
    });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const route = `${request.method} ${request.url}`;
    const body = (text === '' ? {} : JSON.parse(text)) as Body;
    this.requests.push({ route, body });
    if (this.deaf) return;
    const wanted = this.#options.apiKey;
    if (wanted !== undefined && request.headers.authorization !== `Bearer ${wanted}`) {
      return json(response, 401, { error: 'Unauthorized' });
    }
    const answer = this.broken ?? (await this.#answer(route, body));
    if (answer === undefined) return json(response, 404, { detail: 'Not Found' });
    if (typeof answer === 'string') return void response.end(answer);
    if (answer instanceof Failure) return json(response, answer.status, this.#envelope(answer));
    json(response, 200, answer);
  }

  #envelope({ status, message, type }: Failure): object {
    if (this.#options.legacy) return { object: 'error', message, type, param: null, code: status };
    return { error: { message, type, param: null, code: status } };
  }

  #answer(route: string, body: Body): Promise<object> | object | string | Failure | undefined {
    if (route === 'GET /v1/models') return { object: 'list', data: this.#models() };
    if (route === 'POST /v1/completions') return this.#complete(body);
    if (route === 'POST /v1/chat/completions') return this.#chat(body);
    if (this.#options.runtimeLoading === false) return undefined;
    if (route === 'POST /v1/load_lora_adapter') return this.#load(body);
    if (route === 'POST /v1/unload_lora_adapter') return this.#unload(body);
    return undefined;
  }

  #models(): object[] {
    const card = { object: 'model', created: 1, owned_by: 'vllm' };
    const base = { ...card, id: this.base, root: this.base, parent: null, max_model_len: 32_768 };
    const adapters = [...this.#loaded].map(([id, { path }]) => ({
      ...card,
      id,
      root: path,
      parent: this.base,
    }));
    return [base, ...adapters];
  }

  #load({ lora_name: name, lora_path: path, load_inplace: inPlace }: Body): string | Failure {
    if (!name || !path) {
      return fail(400, 'InvalidUserInput', "Both 'lora_name' and 'lora_path' must be provided.");
    }
    if (!inPlace && this.#loaded.has(name)) {
      const remedy = "If you want to load the adapter in place, set 'load_inplace' to True.";
      return fail(400, 'InvalidUserInput', `The lora adapter '${name}' has already been loaded. ${remedy}`);
    }
    const isOnDisk = this.#options.engine && existsSync(path);
    const adapter = isOnDisk ? { rank: 2 } : this.files.get(path);
    if (!adapter) {
      const message = `Loading lora ${name} failed: No adapter found for ${path}`;
      return fail(404, 'NotFoundError', message);
    }
    const { maxRank = 16, legacy } = this.#options;
    if (adapter.rank > maxRank) {
      const message = `LoRA rank ${adapter.rank} is greater than max_lora_rank ${maxRank}.`;
      return legacy ? fail(400, 'BadRequestError', message) : fail(500, 'InternalServerError', message);
    }
    if (!this.forgetful) this.#loaded.set(name, { path, adapter });
    return `Success: LoRA adapter '${name}' added successfully.`;
  }

  #unload({ lora_name: name = '' }: Body): string | Failure {
    if (!this.#loaded.delete(name)) {
      return fail(404, 'NotFoundError', `The lora adapter '${name}' cannot be found.`);
    }
    return `Success: LoRA adapter '${name}' removed successfully.`;
  }

  #complete({ model = '', prompt = [], prompt_logprobs: wanted }: Body): object | Failure {
    const loaded = this.#loaded.get(model);
    if (model !== this.base && !loaded) {
      return fail(404, 'NotFoundError', `The model \`${model}\` does not exist.`);
    }
    const path = this.silentBase ? null : (loaded?.path ?? null);
    const logprobs = this.logprobs(path, prompt).map((logprob, index) =>
      logprob === null ? null : this.#position(prompt[index] ?? 0, logprob),
    );
    const choice = { index: 0, text: 'x', finish_reason: 'length', logprobs: null };
    const choices = [{ ...choice, prompt_logprobs: wanted === undefined ? null : logprobs }];
    return { id: 'cmpl-1', object: 'text_completion', created: 1, model, choices };
  }

  /** Whole answers only: the engine's, or the name of the weights that speak. */
  #chat(body: Body): Promise<object> | object | Failure {
    const { model = '' } = body;
    if (model !== this.base && !this.#loaded.has(model)) {
      return fail(404, 'NotFoundError', `The model \`${model}\` does not exist.`);
    }
    const head = { id: 'chatcmpl-1', object: 'chat.completion', created: 1, model };
    const path = this.#loaded.get(model)?.path ?? null;
    const { engine } = this.#options;
    if (engine) return engine.chat(path, body).then((answer) => ({ ...head, ...answer }));
    const message = { role: 'assistant', content: `weights of ${model}` };
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    return { ...head, choices, usage };
  }

  /** The token of the prompt, and the likeliest when that is another. */
  #position(token: number, logprob: number): object {
    const likeliest = { logprob: -0.1, rank: 1, decoded_token: 'y' };
    return { [token + 1]: likeliest, [token]: { logprob, rank: 2, decoded_token: 'x' } };
  }
}

/** A number in [0, 1) that depends on the words and on nothing else. */
function share(words: readonly (string | number)[]): number {
  return createHash('sha256').update(words.join(' ')).digest().readUInt32BE(0) / 2 ** 32;
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}
