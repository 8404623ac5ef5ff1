/**
 * Whom a learner works with: a trainer that keeps count of its steps, and a server of the policy, which answers right
 * every other time. Both live in this process; what is killed is the learner between them.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readSimTask, simRows } from '../../src/gateway/upstreams/sim/tasks.ts';
import { FakeTinker } from '../../test/support/tinker-server.ts';

const BASE = 'tiny';
/** About what a small model takes; without it the learner would leave no time to the others. */
const ANSWER_MS = 60;

interface Body {
  readonly model?: string;
  readonly messages?: readonly { readonly content: string }[];
  readonly lora_name?: string;
  readonly lora_path?: string;
}

export interface TrainingSide {
  /** Sections of a configuration in which a system trains its policy. */
  readonly models: readonly object[];
  readonly pools: readonly object[];
  readonly trainers: readonly object[];
  readonly systems: readonly object[];
  /** What the trainer was given before each step that it took. */
  steps(): readonly string[];
  close(): Promise<void>;
}

export async function startTraining(seed: number): Promise<TrainingSide> {
  const trainer = new FakeTinker({ baseModel: BASE });
  await trainer.listen();
  const policy = policyServer();
  policy.listen(0, '127.0.0.1');
  await once(policy, 'listening');
  const url = `http://127.0.0.1:${(policy.address() as AddressInfo).port}/v1`;
  const directory = mkdtempSync(join(tmpdir(), 'consort-prompts-'));
  const prompts = taskFile(directory, 'train', 60, seed + 1);
  const holdout = taskFile(directory, 'holdout', 20, seed + 2);
  const train = { policy: 'policy', trainer: 'trainer', prompts, holdout, objective: 'solo', group: 4 };
  return {
    models: [
      {
        id: 'policy',
        provider: 'openai-compatible',
        baseUrl: url,
        model: BASE,
        hosting: { replicas: [url], base: BASE },
      },
    ],
    pools: [{ id: 'training', members: ['policy', 'sim-atlas'] }],
    trainers: [{ id: 'trainer', baseUrl: trainer.url, baseModel: BASE }],
    systems: [
      {
        id: 'trained',
        pool: 'training',
        protocol: 'vote',
        train: { ...train, batch: 2, rank: 2, steps: 10_000, maxTokens: 8 },
      },
    ],
    steps: () => trainer.steps,
    async close() {
      policy.closeAllConnections();
      policy.close();
      await trainer.kill();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

function taskFile(directory: string, name: string, count: number, seed: number): string {
  const path = join(directory, `${name}.jsonl`);
  const lines = simRows(undefined, count, seed).map((row) => JSON.stringify(row));
  writeFileSync(path, `${lines.join('\n')}\n`);
  return path;
}

/** A vLLM server, as far as a learner asks one: adapters by name, and answers with their tokens. */
function policyServer(): Server {
  const adapters = new Map<string, string>();
  let answers = 0;
  const answer = (route: string, body: Body): object | undefined => {
    const { lora_name: name = '', lora_path: path = '' } = body;
    if (route.endsWith('/load_lora_adapter')) return adapters.set(name, path);
    if (route.endsWith('/unload_lora_adapter')) return adapters.delete(name) ? {} : undefined;
    if (route.endsWith('/chat/completions')) return answerOf(body, answers++);
    const loaded = [...adapters].map(([id, root]) => ({ id, root, parent: BASE }));
    return { object: 'list', data: [{ id: BASE, root: BASE, parent: null }, ...loaded] };
  };
  return createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const found = answer(request.url ?? '', (text ? JSON.parse(text) : {}) as Body);
      setTimeout(() => {
        response.writeHead(found ? 200 : 404, { 'content-type': 'application/json' });
        response.end(JSON.stringify(found ?? { detail: 'Not Found' }));
      }, ANSWER_MS);
    });
  });
}

function answerOf({ model, messages = [] }: Body, count: number): object {
  const isRight = count % 2 === 0;
  const task = readSimTask(messages.map(({ content }) => content).join('\n'));
  const text = `Answer: ${isRight ? task?.gold : task?.wrong[0]}`;
  // No two answers have the same tokens, so no two steps are the same unless one is taken twice.
  const ids = [4, 10 + count];
  const content = ids.map((id) => ({ token: `token_id:${id}`, logprob: -6, bytes: null, top_logprobs: [] }));
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: text },
        finish_reason: 'stop',
        logprobs: { content },
        token_ids: ids,
      },
    ],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    prompt_token_ids: [1, 2, 3],
  };
}
