/**
 * The configuration when there is no file: models found through the environment and on this machine, else the
 * simulated pool. What was found is said plainly.
 */
import { get as httpGet } from 'node:http';
import { get as httpsGet } from 'node:https';
import type { Environment } from './secrets.ts';

export interface Discovery {
  /** A configuration document, as a file would hold it. */
  readonly document: unknown;
  /** One sentence for the log and /v1/models. */
  readonly notice: string;
}

interface Source {
  readonly name: string;
  readonly baseUrl: string;
  readonly apiKey?: string;
  /** Whether the environment names it: then its silence is worth a word. */
  readonly isNamed: boolean;
}

/** Names that no chat answers to. */
const NOT_CHAT =
  /embed|whisper|tts|audio|realtime|transcribe|dall|image|moderation|rerank|sora|davinci|babbage/i;
const MAX_MODELS = 4;
const TIMEOUT_MS = 1_500;
const MAX_LIST_BYTES = 1_048_576;

function sources(environment: Environment): Source[] {
  const found: Source[] = [];
  const { OPENAI_API_KEY, OPENAI_BASE_URL, ANTHROPIC_API_KEY, OLLAMA_HOST, VLLM_BASE_URL } = environment;
  const add = (name: string, baseUrl: string, isNamed: boolean, apiKey?: string) =>
    found.push({ name, baseUrl: baseUrl.replace(/\/+$/, ''), isNamed, ...(apiKey && { apiKey }) });
  if (OPENAI_API_KEY) add('openai', OPENAI_BASE_URL || 'https://api.openai.com/v1', true, OPENAI_API_KEY);
  if (ANTHROPIC_API_KEY) add('anthropic', 'https://api.anthropic.com/v1', true, ANTHROPIC_API_KEY);
  add('ollama', ollamaUrl(OLLAMA_HOST || '127.0.0.1'), Boolean(OLLAMA_HOST));
  add('vllm', VLLM_BASE_URL || 'http://127.0.0.1:8000/v1', Boolean(VLLM_BASE_URL));
  return found;
}

/** OLLAMA_HOST is what its server listens on: scheme, port and even the host may be left out. */
function ollamaUrl(host: string): string {
  const [, scheme = 'http://', rest = ''] = /^(https?:\/\/)?(.*?)\/*$/.exec(host) ?? [];
  const name = rest.replace(/^(?:0\.0\.0\.0|\[::\])?(?=:|$)/, '127.0.0.1');
  const port = /:\d+$/.test(name) || scheme === 'https://' ? '' : ':11434';
  return `${scheme}${name}${port}/v1`;
}

/** The ids that a server lists, or none when it does not answer in time. */
function listModels({ baseUrl, apiKey }: Source): Promise<string[]> {
  if (!URL.canParse(baseUrl)) return Promise.resolve([]);
  return new Promise((resolve) => {
    const headers = apiKey
      ? { authorization: `Bearer ${apiKey}`, 'x-api-key': apiKey, 'anthropic-version': '2023-06-01' }
      : {};
    const get = baseUrl.startsWith('https:') ? httpsGet : httpGet;
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const request = get(`${baseUrl}/models`, { headers, signal }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
        if (text.length > MAX_LIST_BYTES) request.destroy();
      });
      response.on('end', () => resolve(idsIn(text)));
      response.on('error', () => resolve([]));
    });
    request.on('error', () => resolve([]));
  });
}

function idsIn(text: string): string[] {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body !== 'object' || body === null || !('data' in body) || !Array.isArray(body.data))
      return [];
    const ids = body.data.map((entry: unknown) =>
      typeof entry === 'object' && entry !== null && 'id' in entry ? String(entry.id) : '',
    );
    return ids.filter((id) => id !== '' && !NOT_CHAT.test(id));
  } catch {
    return [];
  }
}

function aliasOf(model: string): string {
  const alias = model.toLowerCase().replace(/[^a-z0-9.-]+/g, '-');
  return alias.replace(/^[^a-z0-9]+/, '').slice(0, 64) || 'model';
}

function teamSystems(pool: string, options: { ties?: string; rounds?: number }) {
  const { ties, rounds } = options;
  const tie = ties ? { ties } : {};
  return [
    { id: 'vote', pool, protocol: 'vote', options: tie },
    { id: 'debate', pool, protocol: 'debate', options: { ...tie, ...(rounds && { rounds }) } },
    { id: 'fuse', pool, protocol: 'fuse' },
  ];
}

/** The simulated pool, with the systems that its known truth describes. */
export function simulatedDocument(delays: boolean, failures: boolean): unknown {
  /** Name, and USD per million input and output tokens. */
  const pool = [
    ['atlas', 2, 8],
    ['boreas', 0.9, 3.6],
    ['cygnus', 1.2, 4.8],
    ['dingo', 0.1, 0.4],
    ['echo', 0.1, 0.4],
  ] as const;
  const reward = { verifier: 'exact-match' };
  return {
    models: pool.map(([name, inputUsdPerMTok, outputUsdPerMTok]) => ({
      id: `sim-${name}`,
      provider: 'sim',
      description: `Simulated model ${name}: no language model, a program with known abilities.`,
      price: { inputUsdPerMTok, outputUsdPerMTok },
      delays,
      failures,
    })),
    pools: [{ id: 'sim', members: pool.map(([name]) => `sim-${name}`) }],
    systems: teamSystems('sim', { ties: 'random', rounds: 3 }).map((system) => ({ ...system, reward })),
  };
}

function foundDocument(found: readonly { source: Source; ids: readonly string[] }[]): unknown {
  const models = new Map<string, unknown>();
  for (const { source, ids } of found) {
    for (const model of ids.slice(0, MAX_MODELS)) {
      const id = aliasOf(model);
      const { name, baseUrl, apiKey } = source;
      models.set(id, {
        id,
        provider: 'openai-compatible',
        baseUrl,
        model,
        description: `${model} at ${name}`,
        ...(apiKey && { apiKey }),
      });
    }
  }
  const members = [...models.keys()].slice(0, MAX_MODELS);
  const systems =
    members.length > 1 ? teamSystems('found', {}) : [{ id: 'single', pool: 'found', protocol: 'single' }];
  return { models: [...models.values()], pools: [{ id: 'found', members }], systems };
}

/** Asks each likely server for its models; takes a second and a half at most. */
export async function discover(environment: Environment): Promise<Discovery> {
  const listed = await Promise.all(
    sources(environment).map(async (source) => ({ source, ids: await listModels(source) })),
  );
  const found = listed.filter(({ ids }) => ids.length > 0);
  if (found.length === 0) {
    const silent = listed.filter(({ source }) => source.isNamed).map(({ source }) => source.name);
    const why = silent.length
      ? `${silent.join(' and ')} listed no models`
      : 'no OPENAI_API_KEY or ANTHROPIC_API_KEY, and no Ollama or vLLM on this machine';
    const notice =
      `SIMULATED models only: no configuration file, and ${why}. ` +
      'Answers are made up by a program; write a config file to use real models.';
    return { document: simulatedDocument(true, false), notice };
  }
  const names = found.map(({ source, ids }) => `${source.name} (${ids.length})`).join(', ');
  return { document: foundDocument(found), notice: `No configuration file: models found at ${names}.` };
}
