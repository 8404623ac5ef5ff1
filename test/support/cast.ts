/** Members as a script: an in-memory Send that answers, fails, hangs or is slow as a test says, and records it all. */
import { createHash } from 'node:crypto';
import { setImmediate as tick } from 'node:timers/promises';
import type { Answer, Call, Exchange, Send } from '../../src/contract/call.ts';
import type { RunOptions, RunResult } from '../../src/contract/capabilities.ts';
import { textOf as textOfMessage } from '../../src/contract/chat.ts';
import type { Outcome } from '../../src/contract/outcome.ts';
import type { Part } from '../../src/contract/part.ts';
import type { Member, Plan } from '../../src/contract/plan.ts';
import type { Task } from '../../src/contract/task.ts';
import { ConsortError, type ErrorCode } from '../../src/contract/errors.ts';
import { createRunSystem } from '../../src/gateway/engine/run.ts';
import { protocolRevisionOf } from '../../src/gateway/catalog.ts';
import type { Options, Protocol } from '../../src/gateway/protocols/protocol.ts';

/** What one call does. */
export interface Act {
  /** What is said, in these pieces. */
  readonly words?: readonly string[];
  /** Turns of the event loop before the first word. */
  readonly ticks?: number;
  /** Fails with this code once `words` are said. */
  readonly fail?: ErrorCode;
  /** Never ends; `deaf` not even when it is aborted. */
  readonly hang?: 'polite' | 'deaf';
  /** Is awaited between the first word and the rest. */
  readonly gate?: Promise<unknown>;
  readonly more?: Partial<Answer>;
}

/** Where the script says something, a label step is answered as told instead, by default with its first label. */
export function labelling(
  script: (call: Call, seen: readonly Seen[]) => Act,
  pick: (labels: readonly string[], call: Call) => string | undefined = ([first]) => first,
): (call: Call, seen: readonly Seen[]) => Act {
  return (call, seen) => {
    const act = script(call, seen);
    const speaks = act.words?.some((words) => words.trim() !== '');
    return call.choose && speaks ? { ...act, words: [pick(call.choose.labels, call) ?? ''] } : act;
  };
}

const END = 0;
const RENDERED = [1, 2, 3];
/** Every piece of text that was ever a token, at its id. */
const vocabulary: string[] = ['', '', '', ''];

function idOf(piece: string): number {
  const known = vocabulary.indexOf(piece, RENDERED.length + 1);
  return known === -1 ? vocabulary.push(piece) - 1 : known;
}

/**
 * A call for tokens is answered with the next word of what the script says, nearly sure of it, or with the end. Words
 * and the spaces before them are tokens, and all members have one vocabulary.
 */
function inTokens({ tokens, member }: Call, act: Act): Act {
  if (!tokens || act.hang || act.fail || act.more?.steps) return act;
  const pieces = act.words?.join('').match(/\s*\S+/g);
  if (!pieces) return { ...act, words: [], fail: 'upstream_empty' };
  const prompt = typeof tokens.prompt === 'object' ? tokens.prompt : RENDERED;
  const piece = pieces[prompt.length - RENDERED.length];
  const own = piece === undefined ? END : idOf(piece);
  const id = tokens.only ?? own;
  const logprobOf = (other: number) => (other === own ? -0.1 : -30);
  const others = new Map([...new Set(tokens.ids ?? [own, END])].map((other) => [other, logprobOf(other)]));
  const more: Partial<Answer> = {
    message: { text: vocabulary[id] ?? '' },
    finishReason: id === END ? 'stop' : 'length',
    promptTokenIds: prompt,
    steps: [{ id, logprob: logprobOf(id), others }],
    from: [member.alias],
  };
  return { ...act, words: [], more };
}

/**
 * A call for a piece of a text is answered with the next words of what the script says, as many as it may be long, each
 * nearly sure: words and the spaces before them are tokens.
 */
function inPieces({ purpose, tokens, messages, continues, sampling }: Call, act: Act): Act {
  if (purpose !== 'continue' || tokens || act.hang || act.fail || act.more) return act;
  const all: string[] = act.words?.join('').match(/\s*\S+/g) ?? [];
  const before = continues ? textOfMessage(messages.at(-1)!) : '';
  const said = before.match(/\S+/g)?.length ?? 0;
  const words = all.slice(said, said + (sampling.max_tokens ?? Infinity));
  const logprobs = words.map((token) => ({
    token,
    logprob: -0.1,
    top_logprobs: [
      { token, logprob: -0.1 },
      { token: '?', logprob: -3 },
    ],
  }));
  const finishReason = said + words.length < all.length ? 'length' : 'stop';
  return { ...act, words, more: { finishReason, logprobs } };
}

export interface Seen {
  readonly call: Call;
  readonly stream: boolean;
  readonly signal: AbortSignal;
  /** Positions in the order of all starts and ends; Infinity while it runs. */
  readonly start: number;
  end: number;
  /** One more than that of the last call that had ended before: 1 for those that wait for nobody. */
  readonly wave: number;
}

export const USAGE = { inputTokens: 5, outputTokens: 3 };

export class Cast {
  readonly seen: Seen[] = [];
  widest = 0;
  #open = 0;
  #events = 0;
  readonly #script: (call: Call, seen: readonly Seen[]) => Act;

  constructor(script: (call: Call, seen: readonly Seen[]) => Act) {
    this.#script = script;
  }

  readonly send: Send = async (exchange) => {
    const { call, signal, stream } = exchange;
    const ended = this.seen.filter(({ end }) => end < Infinity);
    const wave = 1 + Math.max(0, ...ended.map((one) => one.wave));
    const entry: Seen = { call, signal, stream, start: this.#events++, end: Infinity, wave };
    this.seen.push(entry);
    this.widest = Math.max(this.widest, ++this.#open);
    try {
      return await perform(inPieces(call, inTokens(call, this.#script(call, this.seen))), exchange);
    } finally {
      this.#open--;
      entry.end = this.#events++;
    }
  };

  /** Calls in sequence: the longest chain in which each began after the one before had ended. */
  get path(): number {
    const longest: number[] = [];
    for (const [index, { start }] of this.seen.entries()) {
      const before = this.seen.slice(0, index).map(({ end }, other) => (end < start ? longest[other]! : 0));
      longest[index] = 1 + Math.max(0, ...before);
    }
    return Math.max(0, ...longest);
  }

  slots(): string[] {
    return this.seen.map(({ call }) => call.slot);
  }
}

async function perform(act: Act, exchange: Exchange): Promise<Answer> {
  const { call, emit, signal, note } = exchange;
  const { words = [], ticks = 1, fail, hang, gate, more } = act;
  for (let i = 0; i < ticks; i++) await tick();
  signal.throwIfAborted();
  const at = { slot: call.slot, choice: 0 };
  await emit({ type: 'opaque', ...at });
  for (const [index, text] of words.entries()) {
    await emit({ type: 'text-delta', ...at, text });
    if (index === 0 && gate) await gate;
    signal.throwIfAborted();
  }
  if (hang) {
    await new Promise((_resolve, reject) => {
      const leave = () => {
        note.lostUsage.inputTokens += USAGE.inputTokens;
        reject(signal.reason as Error);
      };
      if (hang === 'polite') signal.addEventListener('abort', leave);
    });
  }
  if (fail) {
    note.lostUsage.inputTokens += USAGE.inputTokens;
    throw new ConsortError(fail, [call.member.alias, 503, 'as scripted']);
  }
  await emit({ type: 'finish', ...at, reason: 'stop' });
  const text = words.join('');
  return { message: { text }, finishReason: 'stop', usage: USAGE, from: [call.member.alias], ...more };
}

export function memberNamed(alias: string): Member {
  const price = { inputMicros: 1_000_000, outputMicros: 2_000_000 };
  const provider = 'openai-compatible';
  const description = `Good at what ${alias} is good at.`;
  return {
    alias,
    model: alias,
    upstream: alias,
    provider,
    revision: 'r',
    price,
    capabilities: {},
    description,
  };
}

export const NAMES = ['ada', 'bob', 'cyd', 'dan', 'eve'];

/** A plan of the coalition at these positions of a pool of `NAMES`. */
export function planOf(
  protocol: Protocol,
  options: Options,
  positions: readonly number[],
  more: Partial<Plan> = {},
): Plan {
  const members = positions.map((position) => memberNamed(NAMES[position]!));
  return {
    v: 1,
    id: '0190b6a0-0000-7000-8000-000000000001',
    asked: 'consort/test',
    system: 'test',
    protocol: { name: protocol.name, version: protocol.version },
    protocolRevision: protocolRevisionOf(protocol, options, members),
    pool: { id: 'pool', revision: 'r', size: NAMES.length },
    members,
    mask: positions.reduce((mask, position) => mask + 2 ** position, 0),
    options,
    budget: { calls: 1000, costMicros: null, deadlineMs: 20_000 },
    seed: '',
    replicate: 0,
    promptInstance: 'prompt',
    cluster: 'prompt',
    tenant: 'tests',
    choice: { source: 'config', propensity: 1 },
    design: 'live',
    configHash: 'c',
    simulated: false,
    ...more,
  };
}

export const TASK: Task = {
  messages: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'How many legs have two spiders?' },
  ],
  sampling: { temperature: 0.5 },
};

export interface Ran extends RunResult {
  readonly parts: readonly Part[];
  readonly outcomes: readonly Outcome[];
}

export type RunMore = Partial<RunOptions> & { readonly task?: Task };

/** Runs a plan through the real engine. */
export async function performPlan(
  protocol: Protocol,
  cast: Cast,
  plan: Plan,
  more: RunMore = {},
): Promise<Ran> {
  const parts: Part[] = [];
  const outcomes: Outcome[] = [];
  const run = createRunSystem({
    protocols: [protocol],
    send: cast.send,
    clock: { now: () => 1_760_000_000_000, elapsed: () => performance.now() },
    newId: () => 'id',
    secret: 'a secret',
    onOutcome: (outcome) => void outcomes.push(outcome),
  });
  const { task = TASK, emit, ...rest } = more;
  const options: RunOptions = {
    signal: new AbortController().signal,
    stream: true,
    trace: false,
    ...rest,
    emit: (part) => {
      parts.push(part);
      return emit?.(part);
    },
  };
  const result = await run(plan, task, options);
  return { ...result, parts, outcomes };
}

export function textOf(parts: readonly Part[]): string {
  return parts.map((part) => (part.type === 'text-delta' ? part.text : '')).join('');
}

/** A number that depends on a text and on nothing else. */
export function hashOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0);
}
