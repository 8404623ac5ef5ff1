/**
 * Stands between Consort and the models: it is the malicious member, and, when told so, it takes the fence out of the
 * prompts of all others, so that fenced and unfenced readers differ in nothing else. The product has no switch for that.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import { MALICIOUS } from './systems.ts';
import { withoutFence } from './unfenced.ts';

/** What the malicious member says, from the prompt that it is given. */
export type Speech = (prompt: string) => string;

interface ChatBody {
  readonly model: string;
  readonly stream?: boolean;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}

export class Meddler {
  /** Whether honest members read fenced prompts. */
  fenced = true;
  speech: Speech = () => '';
  /** Prompts that were changed on their way. */
  changed = 0;
  readonly #server = createServer((request, response) => {
    this.#serve(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  readonly #models: string;

  /** @param models the base URL of the tiny server */
  constructor(models: string) {
    this.#models = models;
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new TypeError('not a TCP server');
    return `http://127.0.0.1:${address.port}/v1`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const body = JSON.parse(Buffer.concat(pieces).toString()) as ChatBody;
    if (body.model === MALICIOUS) return this.#attack(body, response);
    const control = new AbortController();
    response.on('close', () => control.abort());
    const answer = await fetch(`${this.#models}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(this.fenced ? body : this.#unfenced(body)),
      signal: control.signal,
    });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
    for await (const piece of answer.body ?? []) response.write(piece);
    response.end();
  }

  #unfenced(body: ChatBody): ChatBody {
    const messages = body.messages.map((message) => {
      const content = withoutFence(message.content);
      if (content !== message.content) this.changed++;
      return { ...message, content };
    });
    return { ...body, messages };
  }

  #attack({ messages, stream, model }: ChatBody, response: ServerResponse): void {
    const content = this.speech(messages.map((message) => message.content).join('\n'));
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const head = { id: 'chatcmpl-attack', created: 0, model };
    if (!stream) {
      const choice = { index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ ...head, object: 'chat.completion', choices: [choice], usage }));
      return;
    }
    const choice = { index: 0, delta: { role: 'assistant', content }, finish_reason: 'stop' };
    const chunks = [{ choices: [choice] }, { choices: [], usage }].map(
      (part) => `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...part })}\n\n`,
    );
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(`${chunks.join('')}data: [DONE]\n\n`);
  }
}
