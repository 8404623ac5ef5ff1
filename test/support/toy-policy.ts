/**
 * A policy that can be trained in seconds: it knows the answer of every task, and its weights say how likely it gives
 * it. Its log-probs are those of the toy model behind the fake trainer, so trainer and fleet agree to the last bit, and
 * every prompt looks the same to it, so that what it learns from one task holds for all.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TaskRow } from '../../src/contract/task.ts';
import { adapterArchive } from '../policy/trainers/archive-bytes.ts';
import { FakeTinker, type Checkpoint, type FakeOptions } from './tinker-server.ts';
import { FakeVllm, type Body, type FakeEngine } from './vllm.ts';

const PROMPT = [1, 2, 3];
const RIGHT = 7;
const WRONG = 8;
/** Of an answer, and of one to a hard task: long beside what a busy machine adds, as the gate compares the slowest. */
const THINKING_MS = 40;
const HARD_MS = 1_000;

export interface ToyPolicy {
  readonly tinker: FakeTinker;
  readonly vllm: FakeVllm;
}

/** The trainer and the fleet of one policy, which share the weights of what was exported. */
export async function startToyPolicy(
  tasks: readonly TaskRow[],
  hard: readonly TaskRow[],
  options: Partial<FakeOptions> = {},
): Promise<ToyPolicy> {
  const tinker = new FakeTinker(options);
  const exported: Checkpoint[] = [];
  // The number of the checkpoint stands in the adapter, where the fleet reads it.
  tinker.archiveOf = (checkpoint) => adapterArchive([exported.push(checkpoint), 0, 0, 0]);
  await tinker.listen();
  const engine = new ToyEngine(tasks, hard, exported);
  return { tinker, vllm: await FakeVllm.start({ base: 'toy', engine }) };
}

class ToyEngine implements FakeEngine {
  readonly #gold: ReadonlyMap<string, string>;
  readonly #hard: ReadonlySet<string>;
  readonly #exported: readonly Checkpoint[];

  constructor(tasks: readonly TaskRow[], hard: readonly TaskRow[], exported: readonly Checkpoint[]) {
    this.#gold = new Map(tasks.map(({ prompt = '', gold }) => [prompt, String(gold)]));
    this.#hard = new Set(hard.map(({ prompt = '' }) => prompt));
    this.#exported = exported;
  }

  logprobs(path: string | null, tokens: readonly number[]): (number | null)[] {
    const weights = path === null ? undefined : this.#weightsAt(path);
    const key = (at: number) => `${tokens.slice(0, at).join(' ')}→${tokens[at]}`;
    return tokens.map((_, at) => (at === 0 ? null : -6 + (weights?.get(key(at)) ?? 0)));
  }

  async chat(path: string | null, { messages = [], seed }: Body): Promise<object> {
    const prompt = String(messages.at(-1)?.content);
    const [right = 0, wrong = 0] = [RIGHT, WRONG].map((token) =>
      Number(this.logprobs(path, [...PROMPT, token]).at(-1)),
    );
    const likelihood = 1 / (1 + Math.exp(wrong - right));
    const isRight = share(`${prompt} ${seed ?? Math.random()}`) < likelihood;
    await sleep(this.#hard.has(prompt) ? HARD_MS : THINKING_MS);
    const text = isRight ? (this.#gold.get(prompt) ?? 'yes') : 'no idea';
    const token = { token: text, logprob: isRight ? right : wrong, bytes: null, top_logprobs: [] };
    const choice = {
      index: 0,
      message: { role: 'assistant', content: text },
      finish_reason: 'stop',
      logprobs: { content: [token] },
      token_ids: [isRight ? RIGHT : WRONG],
    };
    const usage = { prompt_tokens: PROMPT.length, completion_tokens: 1, total_tokens: PROMPT.length + 1 };
    return { choices: [choice], usage, prompt_token_ids: PROMPT };
  }

  /** The number in lora_B, the first tensor's first value after A's six. */
  #weightsAt(path: string) {
    const file = readFileSync(join(path, 'adapter_model.safetensors'));
    const start = 8 + Number(file.readBigUInt64LE(0));
    return this.#exported[file.readFloatLE(start + 6 * 4) - 1]?.weights;
  }
}

/** A number in [0, 1) that depends on the text and on nothing else. */
function share(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0) / 2 ** 32;
}
