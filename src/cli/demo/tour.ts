/** What the tour asks of the gateway, over HTTP, with the official client: nothing that an app could not do. */
import type OpenAI from 'openai';
import type { TaskRow } from '../../contract/task.ts';
import { exactMatch } from '../../scoring/rewards/exact-match.ts';

/** Warm enough that several samples differ, the same for teams and single models. */
const TEMPERATURE = 0.5;
const MAX_TOKENS = 48;
const CONCURRENCY = 8;

export interface Asked {
  readonly system: string;
  readonly coalition: readonly string[];
  readonly options?: Readonly<Record<string, unknown>>;
  /** Whether the answer counts for the estimates of the system. */
  readonly counted: boolean;
}

/** One graded request; the reward by the same verifier that the gateway uses. */
export async function ask(client: OpenAI, row: TaskRow, asked: Asked): Promise<number> {
  const body = {
    model: `consort/${asked.system}`,
    messages: [{ role: 'user' as const, content: row.prompt ?? '' }],
    temperature: TEMPERATURE,
    max_tokens: MAX_TOKENS,
    consort: {
      coalition: asked.coalition,
      seed: 1,
      ...(asked.options && { options: asked.options }),
      ...(asked.counted && { gold: row.gold, verifier: row.verifier, task: 'tiny-mixed', design: 'full' }),
    },
  };
  const answer = await client.chat.completions.create(body);
  const grade = exactMatch.grade({ completion: answer.choices[0]?.message.content ?? '', gold: row.gold });
  return grade.reward ?? 0;
}

/** Runs jobs side by side, results in order. */
export async function inParallel<T>(jobs: readonly (() => Promise<T>)[], done: () => void): Promise<T[]> {
  const results: T[] = [];
  const waiting = jobs.entries();
  const worker = async () => {
    for (const [index, job] of waiting) {
      results[index] = await job();
      done();
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  return results;
}

/** Every non-empty coalition of the members. */
export function coalitions(members: readonly string[]): string[][] {
  return Array.from({ length: 2 ** members.length - 1 }, (_, index) =>
    members.filter((_member, bit) => ((index + 1) >> bit) & 1),
  );
}

interface StreamedStep {
  readonly type: string;
  readonly slot: string;
  readonly text?: string;
}

/** Streams one answer with its steps, as they happen. */
export async function streamOne(
  client: OpenAI,
  system: string,
  question: string,
  write: (text: string) => void,
): Promise<void> {
  const body = {
    model: `consort/${system}`,
    messages: [{ role: 'user' as const, content: question }],
    stream: true as const,
    temperature: TEMPERATURE,
    max_tokens: MAX_TOKENS,
    consort: { trace: true },
  };
  const stream = await client.chat.completions.create(body);
  let isSpeaking = false;
  for await (const chunk of stream) {
    const text = chunk.choices[0]?.delta.content;
    if (text) {
      if (!isSpeaking) write('  answer: ');
      isSpeaking = true;
      write(text);
    }
    const step = stepOf(chunk);
    if (step?.type === 'step-end' && !isSpeaking)
      write(`  ${step.slot.padEnd(18)} ${step.text ?? '(no answer)'}\n`);
  }
  write('\n');
}

/** The extension that a trace adds to a chunk; the client's types do not know it. */
function stepOf(chunk: object): StreamedStep | undefined {
  if (!('consort' in chunk)) return undefined;
  const { step } = chunk.consort as { step?: StreamedStep };
  return step;
}
