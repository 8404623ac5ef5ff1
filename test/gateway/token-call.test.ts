import t from 'tap';
import Value from 'typebox/value';
import { checkDocument } from '../../src/config/check.ts';
import { known } from '../../src/cli/known.ts';
import type { Answer, Call, TokenQuestion } from '../../src/contract/call.ts';
import { ModelConfig } from '../../src/contract/config.ts';
import { callKey } from '../../src/gateway/engine/reuse.ts';
import { openaiCompatible } from '../../src/gateway/upstreams/openai-compatible.ts';
import { memberNamed, TASK } from '../support/cast.ts';
import { json, said, startUpstream } from '../support/upstream.ts';

const upstream = await startUpstream();
const config: unknown = Value.Default(ModelConfig, {
  id: 'ada',
  provider: 'openai-compatible',
  baseUrl: `${upstream.url}?key=1`,
  retries: 0,
});
if (!Value.Check(ModelConfig, config)) throw new TypeError('not a model');
const { send, close } = openaiCompatible.open(config);
t.teardown(async () => {
  await close();
  await upstream.close();
});

const CALL: Call = {
  slot: 'token-1/ada',
  member: memberNamed('ada'),
  purpose: 'continue',
  messages: TASK.messages,
  sampling: { temperature: 0, max_tokens: 1 },
  sample: 0,
  reads: [],
  speaks: false,
};

function ask(more: Partial<Call>): Promise<Answer> {
  const lostUsage = { inputTokens: 0, outputTokens: 0 };
  const note = { attempts: 0, reused: false, lostUsage };
  const { signal } = new AbortController();
  return send({ call: { ...CALL, ...more }, emit: () => undefined, signal, stream: false, note });
}

/** As vLLM writes it under `return_tokens_as_token_ids` and `return_token_ids`. */
const completion = (more: object = {}, choice: object = {}) =>
  json({
    id: 'cmpl-1',
    object: 'text_completion',
    choices: [
      {
        index: 0,
        text: ' six',
        finish_reason: 'length',
        token_ids: [7],
        prompt_token_ids: [3, 4],
        logprobs: {
          text_offset: [0],
          tokens: ['token_id:7'],
          token_logprobs: [-0.5],
          top_logprobs: [{ 'token_id:7': -0.5, 'token_id:9': -1.25 }],
        },
        ...choice,
      },
    ],
    usage: { prompt_tokens: 2, completion_tokens: 1, total_tokens: 3 },
    ...more,
  });

const sentBody = () => upstream.received.at(-1)?.body ?? {};

t.test('asks for the next token after ids, and reads it back by ids', async (t) => {
  upstream.play(completion());
  const answer = await ask({ tokens: { prompt: [3, 4], top: 2 } });
  t.match(upstream.received.at(-1)?.path, '/v1/completions?key=1');
  t.strictSame(sentBody(), {
    temperature: 0,
    max_tokens: 1,
    top_k: -1,
    min_p: 0,
    repetition_penalty: 1,
    return_token_ids: true,
    return_tokens_as_token_ids: true,
    model: 'ada',
    prompt: [3, 4],
    logprobs: 2,
  });
  t.strictSame(answer.steps, [
    {
      id: 7,
      logprob: -0.5,
      others: new Map([
        [7, -0.5],
        [9, -1.25],
      ]),
    },
  ]);
  t.match(answer, { message: { text: ' six' }, finishReason: 'length', promptTokenIds: [3, 4] });
  t.strictSame(answer.usage, { inputTokens: 2, outputTokens: 1 });
});

t.test('asks for tokens by their ids, and for one token only', async (t) => {
  upstream.play(completion());
  await ask({ tokens: { prompt: 'As it stands', top: 0, ids: [5, 6], only: 5 } });
  t.match(sentBody(), {
    prompt: 'As it stands',
    add_special_tokens: false,
    logprobs: 0,
    logprob_token_ids: [5, 6],
    allowed_token_ids: [5],
  });
});

t.test('asks through the chat template where there is no prompt', async (t) => {
  const entry = (id: number, logprob: number) => ({ token: `token_id:${id}`, logprob, bytes: [1] });
  const content = [{ ...entry(7, -0.5), top_logprobs: [entry(7, -0.5), entry(9, -2)] }];
  const choice = {
    index: 0,
    message: { role: 'assistant', content: '' },
    finish_reason: 'stop',
    token_ids: [7],
    logprobs: { content },
  };
  upstream.play(said('', { choices: [choice], prompt_token_ids: [1, 2, 3] }));
  const answer = await ask({ tokens: { top: 2 } });
  t.equal(upstream.received.at(-1)?.path, '/v1/chat/completions?key=1');
  t.match(sentBody(), { messages: TASK.messages, logprobs: true, top_logprobs: 2, return_token_ids: true });
  t.strictSame(
    [...(answer.steps?.[0]?.others ?? [])],
    [
      [7, -0.5],
      [9, -2],
    ],
  );
  t.strictSame(answer.promptTokenIds, [1, 2, 3]);
  t.equal(answer.finishReason, 'stop');
});

t.test('does not take words for tokens', async (t) => {
  const words = { tokens: [' six'], token_logprobs: [-0.5], top_logprobs: [{ ' six': -0.5 }] };
  for (const [script, message] of [
    [completion({}, { logprobs: words }), 'log-probabilities without token ids'],
    [json({ choices: [] }), 'choices'],
    [json({ object: 'error', message: 'no' }), 'no'],
  ] as const) {
    upstream.play(script);
    await t.rejects(ask({ tokens: { prompt: [3], top: 1 } }), {
      code: 'upstream_malformed',
      message: new RegExp(message),
    });
  }
});

t.test('goes on with an unfinished answer', async (t) => {
  upstream.play(said(' legs.'));
  const messages = [...TASK.messages, { role: 'assistant' as const, content: 'Sixteen' }];
  const answer = await ask({ messages, continues: true });
  t.match(sentBody(), { messages, continue_final_message: true, add_generation_prompt: false });
  t.equal(answer.message.text, ' legs.');
});

t.test('keeps calls that differ in their tokens apart where calls are shared', (t) => {
  const questions: readonly (TokenQuestion | undefined)[] = [
    undefined,
    { top: 1 },
    { top: 2 },
    { top: 2, prompt: [1] },
    { top: 2, prompt: [2] },
    { top: 2, prompt: [2], ids: [3] },
    { top: 2, prompt: [2], only: 3 },
  ];
  const calls: readonly Call[] = [
    ...questions.map((tokens) => ({ ...CALL, ...(tokens && { tokens }) })),
    { ...CALL, continues: true },
  ];
  t.equal(new Set(calls.map((call) => callKey(call, 0))).size, calls.length);
  t.end();
});

t.test('refuses a configuration whose models cannot do what the protocol needs', (t) => {
  const able = { completions: true, logprobs: 20, tokenIds: true };
  const checked = (capabilities: object) =>
    checkDocument(
      {
        models: ['ada', 'bob'].map((id) => ({
          id,
          provider: 'openai-compatible',
          baseUrl: 'http://h/v1',
          capabilities: id === 'ada' ? able : capabilities,
        })),
        pools: [{ id: 'pair', members: ['ada', 'bob'] }],
        systems: [{ id: 'mix', pool: 'pair', protocol: 'logit-fusion', budget: { calls: 9_999 } }],
      },
      known,
    ).problems;
  t.strictSame(checked(able), []);
  t.match(checked({ ...able, tokenIds: false }), [
    {
      path: 'systems.mix.pool',
      message: 'Protocol logit-fusion needs tokenIds, and model bob is not known to have it',
      remedy: /consort check --probe.*models\[\]\.capabilities/,
    },
  ]);
  t.match(checked({ ...able, logprobs: 0 }), [{ message: /needs logprobs, and model bob/ }]);
  t.end();
});
