/**
 * Asks an endpoint what it can do, by doing it: tiny requests, one after the other, whose answers show an effect. That
 * a server accepts a field proves nothing, as most ignore the ones that they do not know.
 */
import { request } from 'undici';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Usage } from '../../contract/chat.ts';
import type { ModelConfig } from '../../contract/config.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Capabilities } from '../../contract/plan.ts';
import { bodyText, statusError } from './upstream-error.ts';

const REQUEST_MS = 20_000;
const MAX_BYTES = 1_048_576;

const open = { additionalProperties: true };
const maybe = <S extends Type.TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]));
const Said = Type.Object(
  {
    content: maybe(Type.String()),
    reasoning_content: maybe(Type.String()),
    reasoning: maybe(Type.String()),
    tool_calls: maybe(Type.Array(Type.Unknown())),
  },
  open,
);
/** What probes read of any reply; all of it may be missing. */
const ProbeBody = Type.Object(
  {
    choices: maybe(
      Type.Array(
        Type.Object(
          {
            message: maybe(Said),
            text: maybe(Type.String()),
            token_ids: maybe(Type.Array(Type.Integer())),
            logprobs: maybe(
              Type.Object(
                {
                  content: maybe(
                    Type.Array(Type.Object({ top_logprobs: maybe(Type.Array(Type.Unknown())) }, open)),
                  ),
                },
                open,
              ),
            ),
          },
          open,
        ),
      ),
    ),
    usage: maybe(
      Type.Object({ prompt_tokens: maybe(Type.Integer()), completion_tokens: maybe(Type.Integer()) }, open),
    ),
    prompt_token_ids: maybe(Type.Array(Type.Integer())),
    prompt_logprobs: maybe(Type.Array(Type.Unknown())),
    tokens: maybe(Type.Array(Type.Integer())),
    data: maybe(Type.Array(Type.Record(Type.String(), Type.Unknown()))),
  },
  open,
);
export type ProbeBody = Static<typeof ProbeBody>;
const reader = Compile(ProbeBody);

export interface ProbeReply {
  readonly status: number;
  readonly body: ProbeBody;
  /** What the server says about a failure. */
  readonly reason: string;
}

/** One endpoint being asked: counts what that takes. */
export class Asker {
  readonly model: ModelConfig;
  readonly name: string;
  /** Keep every answer short and the same; a model that thinks first is given others. */
  limits: object = { max_tokens: 16, temperature: 0 };
  requests = 0;
  readonly usage: Usage = { inputTokens: 0, outputTokens: 0 };
  readonly #base: URL;

  constructor(model: ModelConfig) {
    this.model = model;
    this.name = model.model ?? model.id;
    this.#base = new URL(model.baseUrl ?? '');
  }

  /** A chat of one user turn with these fields besides. */
  chat(text: string, fields: object = {}): Promise<ProbeReply> {
    const messages = [{ role: 'user', content: text }];
    return this.post('/chat/completions', { ...this.limits, messages, ...fields });
  }

  post(path: string, fields: object): Promise<ProbeReply> {
    return this.#send(path, JSON.stringify({ model: this.name, ...fields }));
  }

  get(path: string): Promise<ProbeReply> {
    return this.#send(path, undefined);
  }

  /** @param path below the base URL, or, when it begins with two slashes, below its host */
  async #send(path: string, body: string | undefined): Promise<ProbeReply> {
    const { apiKey, id } = this.model;
    const base = this.#base.pathname.replace(/\/$/, '');
    const url = `${this.#base.origin}${path.startsWith('//') ? path.slice(1) : base + path}`;
    this.requests++;
    try {
      const { statusCode, body: stream } = await request(url, {
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          'content-type': 'application/json',
          ...(apiKey && { authorization: `Bearer ${apiKey}` }),
        },
        signal: AbortSignal.timeout(REQUEST_MS),
        ...(body !== undefined && { body }),
      });
      const chunks: Buffer[] = [];
      let bytes = 0;
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (bytes > MAX_BYTES) throw new RangeError(`a response of more than ${MAX_BYTES} bytes`);
        chunks.push(chunk);
      }
      return this.#read(statusCode, Buffer.concat(chunks).toString('utf8'));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ConsortError('upstream_unreachable', [id, reason], { cause: error });
    }
  }

  #read(status: number, text: string): ProbeReply {
    const { apiKey } = this.model;
    const clean = apiKey ? text.replaceAll(apiKey, '[redacted]') : text;
    const parsed = jsonOf(clean);
    const body = reader.Check(parsed) ? parsed : {};
    this.usage.inputTokens += body.usage?.prompt_tokens ?? 0;
    this.usage.outputTokens += body.usage?.completion_tokens ?? 0;
    return { status, body, reason: status === 200 ? '' : bodyText(clean) };
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What was found about one capability, and by what sign. */
export interface Finding {
  readonly capability: keyof Capabilities;
  readonly value: Capabilities[keyof Capabilities];
  readonly sign: string;
}

export interface ProbeReport {
  readonly findings: readonly Finding[];
  readonly requests: number;
  readonly usage: Usage;
  /** Why it could not be asked at all. */
  readonly error?: ConsortError;
}

/** One question: gives what it found. `found` holds what earlier questions have. */
export type Probe = (asker: Asker, found: Partial<Capabilities>) => Promise<readonly Finding[]>;

/** @throws `upstream_status` for an answer that is none */
export function demandOk({ model }: Asker, { status, reason }: ProbeReply): void {
  if (status !== 200) throw statusError(model.id, status, reason, undefined);
}

/**
 * Puts the questions one after the other. When the first cannot be asked, none can; of the later ones each fails for
 * itself.
 */
export async function probeWith(probes: readonly Probe[], model: ModelConfig): Promise<ProbeReport> {
  const asker = new Asker(model);
  const findings: Finding[] = [];
  for (const [index, probe] of probes.entries()) {
    const found: Partial<Capabilities> = Object.fromEntries(
      findings.map(({ capability, value }) => [capability, value]),
    );
    try {
      findings.push(...(await probe(asker, found)));
    } catch (error) {
      const { requests, usage } = asker;
      if (index === 0) return { findings, requests, usage, error: ConsortError.from(error) };
    }
  }
  return { findings, requests: asker.requests, usage: asker.usage };
}
