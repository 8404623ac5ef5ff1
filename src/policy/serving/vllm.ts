/**
 * vLLM with LoRA adapters at run time (`--enable-lora`, `VLLM_ALLOW_RUNTIME_LORA_UPDATING=True`). Adapters are loaded
 * on every replica one by one, because replicas do not tell each other; a name is loaded once and never in place: an
 * in-place load mixes two policies in the requests under way and can meet the prefix cache of the old weights.
 * Whoever can reach these routes can make the server read any path, so only this process should.
 */
import Type from 'typebox';
import { ConsortError } from '../../contract/errors.ts';
import { onEvery } from './every-replica.ts';
import type {
  Adapter,
  FleetKind,
  FleetOptions,
  FleetTimeouts,
  LoadedAdapter,
  ServingFleet,
} from './fleet.ts';
import { messageOf, Replica, type ReplicaResponse } from './replica.ts';

const TIMEOUTS: FleetTimeouts = { connectMs: 5_000, loadMs: 120_000, listMs: 10_000, probeMs: 60_000 };

/** The base model has no parent, adapters have. `root` is the path that was loaded. */
const ModelList = Type.Object({
  data: Type.Array(
    Type.Object({
      id: Type.String(),
      root: Type.Optional(Type.Union([Type.String(), Type.Null()])),
      parent: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    }),
  ),
});

/** Position by position the log-probs of some tokens by their ids, always with that of the prompt itself. */
const Completion = Type.Object({
  model: Type.String(),
  choices: Type.Array(
    Type.Object({
      prompt_logprobs: Type.Array(
        Type.Union([Type.Null(), Type.Record(Type.String(), Type.Object({ logprob: Type.Number() }))]),
      ),
    }),
    { minItems: 1 },
  ),
});

class VllmFleet implements ServingFleet {
  readonly base: string;
  readonly #replicas: readonly Replica[];
  readonly #timeouts: FleetTimeouts;

  constructor({ replicas, base, apiKey, timeouts }: FleetOptions) {
    this.base = base;
    this.#timeouts = { ...TIMEOUTS, ...timeouts };
    const { connectMs } = this.#timeouts;
    this.#replicas = replicas.map((url) => new Replica({ url, apiKey, connectMs }));
  }

  get replicas(): string[] {
    return this.#replicas.map(({ name }) => name);
  }

  async load(adapter: Adapter): Promise<void> {
    await onEvery(this.#replicas, adapter.name, async (replica) => {
      await this.#load(replica, adapter);
      await this.#verify(replica, adapter);
    });
  }

  loaded() {
    return onEvery(this.#replicas, 'a list of models', async (replica) => {
      return { replica: replica.name, adapters: await this.#list(replica) };
    });
  }

  async verify(adapter: Adapter): Promise<void> {
    await onEvery(this.#replicas, adapter.name, (replica) => this.#verify(replica, adapter));
  }

  async unload(name: string): Promise<void> {
    const path = '/unload_lora_adapter';
    await onEvery(this.#replicas, `the end of ${name}`, async (replica) => {
      const response = await replica.ask('POST', path, this.#timeouts.loadMs, { lora_name: name });
      if (response.status === 200 || (response.status === 404 && !isDisabled(response))) return;
      throw refusal(replica, name, path, response);
    });
  }

  probe(name: string, tokens: readonly number[]) {
    const path = '/completions';
    const body = {
      model: name,
      prompt: tokens,
      max_tokens: 1,
      temperature: 1,
      top_p: 1,
      prompt_logprobs: 1,
      stream: false,
    };
    return onEvery(this.#replicas, `a probe of ${name}`, async (replica) => {
      const response = await replica.ask('POST', path, this.#timeouts.probeMs, body);
      const { model, choices } = replica.decode(path, response, Completion);
      if (model !== name) {
        throw new ConsortError('probe_failed', [replica.name, name, `it answers as ${model}`]);
      }
      return {
        replica: replica.name,
        logprobs: promptLogprobs(replica, tokens, choices[0]?.prompt_logprobs),
      };
    });
  }

  async close(): Promise<void> {
    await Promise.all(this.#replicas.map((replica) => replica.close()));
  }

  async #load(replica: Replica, { name, path }: Adapter): Promise<void> {
    const route = '/load_lora_adapter';
    const body = { lora_name: name, lora_path: path };
    const response = await replica.ask('POST', route, this.#timeouts.loadMs, body);
    if (response.status === 200) return;
    // The name exists, or the request is bad: the list tells them apart whatever the message is.
    const isThere = response.status === 400 && (await this.#find(replica, name));
    if (!isThere) throw refusal(replica, name, route, response, path);
  }

  async #list(replica: Replica): Promise<LoadedAdapter[]> {
    const path = '/models';
    const response = await replica.ask('GET', path, this.#timeouts.listMs);
    const { data } = replica.decode(path, response, ModelList);
    return data.flatMap(({ id, root, parent }) =>
      typeof parent === 'string' ? [{ name: id, path: root ?? '', base: parent }] : [],
    );
  }

  async #find(replica: Replica, name: string): Promise<LoadedAdapter | undefined> {
    return (await this.#list(replica)).find((adapter) => adapter.name === name);
  }

  async #verify(replica: Replica, { name, path }: Adapter): Promise<void> {
    const found = await this.#find(replica, name);
    if (!found) throw new ConsortError('serving_not_loaded', [replica.name, name]);
    if (found.path !== path) {
      const roots = `those at ${found.path}, not at ${path}`;
      throw new ConsortError('serving_name_taken', [replica.name, name, roots]);
    }
    if (found.base !== null && found.base !== this.base) {
      throw new ConsortError('serving_wrong_base', [replica.name, name, found.base, this.base]);
    }
  }
}

/** What a failed answer means. Old versions say 400 where newer ones say 500, so the words decide about the rank. */
function refusal(
  replica: Replica,
  name: string,
  route: string,
  response: ReplicaResponse,
  path = '',
): ConsortError {
  const { status } = response;
  const message = messageOf(response.body);
  if (isDisabled(response)) return new ConsortError('serving_disabled', [replica.name]);
  if (status === 404) return new ConsortError('serving_path_missing', [replica.name, name, path]);
  if (/\brank\b/i.test(message)) {
    return new ConsortError('serving_rank_too_big', [replica.name, name, message]);
  }
  if (status === 400) return new ConsortError('serving_refused', [replica.name, name, message]);
  const retryable = status >= 500 || status === 429;
  return new ConsortError('serving_status', [replica.name, status, route, message], { retryable });
}

/** The framework's own 404: the route is not there, because run-time loading is off. */
function isDisabled({ status, body }: ReplicaResponse): boolean {
  return status === 405 || (status === 404 && /^\{"detail":"Not Found"\}$/.test(body.trim()));
}

function promptLogprobs(
  replica: Replica,
  tokens: readonly number[],
  positions: readonly (Readonly<Record<string, { readonly logprob: number }>> | null)[] = [],
): (number | null)[] {
  if (positions.length !== tokens.length) {
    const counts = `${positions.length} log-probs for ${tokens.length} tokens`;
    throw new ConsortError('serving_malformed', [replica.name, '/completions', counts]);
  }
  return positions.map((position, index) => {
    const logprob = position?.[String(tokens[index])]?.logprob ?? null;
    if (logprob === null && index > 0) {
      const missing = `no log-prob of token ${index}`;
      throw new ConsortError('serving_malformed', [replica.name, '/completions', missing]);
    }
    return logprob;
  });
}

export const vllm: FleetKind = { kind: 'vllm', open: (options) => new VllmFleet(options) };
