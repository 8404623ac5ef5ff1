/** Consort as a child process before the tiny team, for the checks. */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface Asked {
  readonly text: string;
  /** The pieces in which the text came; one where it was not streamed. */
  readonly pieces: readonly string[];
  readonly outcome: string;
}

export class Gateway implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #url: string;
  readonly #scratch: string;

  private constructor(child: ChildProcess, url: string, scratch: string) {
    this.#child = child;
    this.#url = url;
    this.#scratch = scratch;
  }

  /** @param config a file of this folder, with ${TINY_TEAM_URL} in it */
  static async start(config: string, tinyTeamUrl: string): Promise<Gateway> {
    const scratch = await mkdtemp(join(tmpdir(), 'consort-check-'));
    const main = join(import.meta.dirname, '../../src/main.ts');
    const flags = ['--port', '0', '--admin-port', '0', '--store', `sqlite:${scratch}/consort.db`];
    const child = spawn(process.execPath, [main, 'serve', '--json', '--config', config, ...flags], {
      cwd: import.meta.dirname,
      env: { ...process.env, TINY_TEAM_URL: tinyTeamUrl, CONSORT_LOG_LEVEL: 'error' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    return new Gateway(child, (JSON.parse(line) as { url: string }).url, scratch);
  }

  async ask(model: string, prompt: string, stream = false): Promise<Asked> {
    const body = { model, messages: [{ role: 'user', content: prompt }], temperature: 0, stream };
    const response = await fetch(`${this.#url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    const bodies = stream
      ? text
          .split('\n\n')
          .map((event) => event.replace(/^data: /, ''))
          .filter((data) => data.startsWith('{'))
      : [text];
    const pieces = bodies.flatMap((data) => {
      const { choices, error } = JSON.parse(data) as Chunk;
      assert.equal(error, undefined, data);
      const said = choices[0]?.message ?? choices[0]?.delta;
      return said?.content ? [said.content] : [];
    });
    const outcome = response.headers.get('x-consort-outcome') ?? assert.fail('no outcome');
    return { text: pieces.join(''), pieces, outcome };
  }

  async outcome<Outcome>(id: string): Promise<Outcome> {
    return (await (await fetch(`${this.#url}/v1/outcomes/${id}`)).json()) as Outcome;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exit = once(this.#child, 'exit');
    this.#child.kill();
    await exit;
    await rm(this.#scratch, { recursive: true });
  }
}

interface Chunk {
  choices: { message?: { content?: string | null }; delta?: { content?: string | null } }[];
  error?: unknown;
}
