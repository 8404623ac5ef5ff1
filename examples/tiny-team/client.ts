/** Starts the server as a child process and asks its models: what the checks and the measurement share. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface ChatBody {
  model: string;
  messages: readonly object[];
  [field: string]: unknown;
}

export class TinyTeam implements AsyncDisposable {
  readonly baseUrl: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, baseUrl: string) {
    this.#child = child;
    this.baseUrl = baseUrl;
  }

  static async start(): Promise<TinyTeam> {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'server.ts')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines = createInterface({ input: child.stdout });
    const ended = once(child, 'exit').then(([code]) => {
      throw new Error(`the server ended with ${code} before it was ready`);
    });
    const [line] = (await Promise.race([once(lines, 'line'), ended])) as [string];
    ended.catch(() => undefined);
    const { baseUrl } = JSON.parse(line) as { baseUrl: string };
    return new TinyTeam(child, baseUrl);
  }

  post(body: unknown, signal?: AbortSignal): Promise<Response> {
    return fetch(`${this.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      ...(signal && { signal }),
    });
  }

  /** The text of a whole answer. */
  async say(body: ChatBody): Promise<string> {
    const response = await this.post(body);
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
    const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
    return choices[0]?.message.content ?? '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exit = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await exit;
  }
}

/** Runs `work` on all items, `width` of them at a time, and keeps their order. */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  width: number,
  work: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const queue = items.entries();
  const worker = async (): Promise<void> => {
    for (const [index, item] of queue) results[index] = await work(item, index);
  };
  await Promise.all(Array.from({ length: width }, worker));
  return results;
}
