/** One question to the gateway over HTTP, as any client asks, and what came of it. */

/** Warm enough that several samples differ, the same for teams and single members. */
export const TEMPERATURE = 0.5;
const MAX_TOKENS = 32;

export interface Asked {
  readonly model: string;
  readonly prompt: string;
  readonly seed: number;
  /** Of the `consort` object; only systems have one. */
  readonly consort?: Readonly<Record<string, unknown>>;
}

export interface Heard {
  readonly text: string;
  readonly ms: number;
  readonly calls: number;
  readonly tokens: number;
  /** What went wrong: of the request, or of any member's call. */
  readonly errors: readonly string[];
}

interface Body {
  readonly choices: readonly { readonly message: { readonly content: string | null } }[];
  readonly usage: { readonly total_tokens: number };
  readonly consort?: {
    readonly trace: {
      readonly calls: readonly object[];
      readonly absences: readonly { readonly member: string; readonly code: string }[];
    };
  };
}

export async function ask(url: string, { model, prompt, seed, consort }: Asked): Promise<Heard> {
  const isSystem = model.startsWith('consort/');
  const body = {
    model,
    messages: [{ role: 'user', content: prompt }],
    temperature: TEMPERATURE,
    max_tokens: MAX_TOKENS,
    ...(isSystem ? { consort: { seed, trace: true, ...consort } } : { seed }),
  };
  const start = performance.now();
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const ms = performance.now() - start;
  if (!response.ok) return { text: '', ms, calls: 0, tokens: 0, errors: [`${response.status} ${text}`] };
  const answer = JSON.parse(text) as Body;
  const trace = answer.consort?.trace;
  return {
    text: answer.choices[0]?.message.content ?? '',
    ms,
    calls: trace?.calls.length ?? 1,
    tokens: answer.usage.total_tokens,
    errors: (trace?.absences ?? []).map(({ member, code }) => `${member}: ${code}`),
  };
}

/** Runs jobs side by side, results in order. */
export async function inParallel<T>(width: number, jobs: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  const waiting = jobs.entries();
  const worker = async (): Promise<void> => {
    for (const [index, job] of waiting) results[index] = await job();
  };
  await Promise.all(Array.from({ length: width }, worker));
  return results;
}
