import t from 'tap';
import { Value } from 'typebox/value';
import { ModelConfig } from '../../src/contract/config.ts';
import { createRunSystem } from '../../src/gateway/engine/run.ts';
import { protocols } from '../../src/gateway/protocols/index.ts';
import { openFleet } from '../../src/gateway/upstreams/fleet.ts';
import { datumsOf } from '../../src/policy/datums.ts';
import { collectGroup } from '../../src/policy/rollout-groups.ts';
import { judge } from '../../src/scoring/judge.ts';
import { verifiers } from '../../src/scoring/rewards/index.ts';
import { planOf, TASK } from '../support/cast.ts';
import { json, startUpstream, type Received } from '../support/upstream.ts';

/** A whole answer in vLLM's form: with token ids and log-probs for whoever asked for them. */
function vllm(text: string, ids: readonly number[]) {
  return ({ body }: Received) => {
    const content = ids.map((id) => ({
      token: `token_id:${id}`,
      logprob: -id / 10,
      bytes: null,
      top_logprobs: [],
    }));
    return json({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1,
      model: body['model'],
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: text },
          finish_reason: 'stop',
          ...(body['logprobs'] === true && { logprobs: { content } }),
          ...(body['return_token_ids'] === true && { token_ids: ids }),
        },
      ],
      usage: { prompt_tokens: 3, completion_tokens: ids.length, total_tokens: 3 + ids.length },
      ...(body['return_token_ids'] === true && { prompt_token_ids: [1, 2, 3] }),
    });
  };
}

void t.test('a group over HTTP: the policy is asked for its tokens, a partner is not', async (t) => {
  const policy = await startUpstream();
  const partner = await startUpstream();
  policy.play(vllm('Answer: 16', [4, 5]), vllm('Answer: 8', [4, 6, 7]));
  partner.play(vllm('Answer: 8', [9]));
  const models = [
    ['ada', policy.url],
    ['bob', partner.url],
  ].map(([id, baseUrl]) => {
    const config: unknown = Value.Default(ModelConfig, { id, provider: 'openai-compatible', baseUrl });
    if (!Value.Check(ModelConfig, config)) throw new TypeError('not a model');
    return config;
  });
  const fleet = openFleet(models);
  const clock = { now: () => 1_760_000_000_000, elapsed: () => performance.now() };
  let ids = 0;
  const newId = () => `id-${ids++}`;
  const run = createRunSystem({
    protocols,
    send: fleet.send,
    clock,
    newId,
    secret: 'a secret',
    onOutcome: () => undefined,
  });
  t.teardown(() => Promise.all([fleet.close(), policy.close(), partner.close()]));
  const vote = protocols.find(({ name }) => name === 'vote')!;
  const group = await collectGroup(
    {
      plan: planOf(vote, { samples: 1, ties: 'priority' }, [0, 1], { seed: '1' }),
      task: { ...TASK, gold: '16', verifier: 'numeric' },
      taskId: 'spiders',
      objective: 'team',
      policy: { alias: 'ada', baseModel: 'tiny/ada', adapter: null, version: 0 },
      groupSize: 2,
      advantage: 'rloo',
      visit: 0,
      maxTokens: 32,
    },
    {
      run,
      grade: (outcome) => judge(outcome, verifiers, 0),
      clock,
      newId,
      signal: new AbortController().signal,
    },
  );
  t.same(group.filter, { accepted: true, reasons: [] });
  t.equal(partner.received.length, 1);
  t.equal(policy.received.length, 2);
  const [first, second] = policy.received.map(({ body }) => body);
  const { messages, model, seed, ...asked } = first!;
  t.same(asked, {
    temperature: 1,
    top_p: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    max_tokens: 32,
    top_k: -1,
    min_p: 0,
    repetition_penalty: 1,
    logprobs: true,
    return_token_ids: true,
    stream: false,
  });
  t.same([messages, model], [TASK.messages, 'ada']);
  t.not(seed, second!['seed'], 'two rollouts with one seed would be one rollout');
  t.same(Object.keys(partner.received[0]!.body).toSorted(), [
    'messages',
    'model',
    'seed',
    'stream',
    'temperature',
  ]);
  const datums = group.rollouts.flatMap((rollout) => datumsOf(group.groupId, rollout));
  t.same(
    datums
      .map(({ tokens, targetTokens, logprobs, advantages }) => ({
        tokens,
        targetTokens,
        logprobs,
        advantages,
      }))
      .toSorted((a, b) => a.tokens.length - b.tokens.length),
    [
      {
        tokens: [1, 2, 3, 4],
        targetTokens: [2, 3, 4, 5],
        logprobs: [0, 0, -0.4, -0.5],
        advantages: [0, 0, 1, 1],
      },
      {
        tokens: [1, 2, 3, 4, 6],
        targetTokens: [2, 3, 4, 6, 7],
        logprobs: [0, 0, -0.4, -0.6, -0.7],
        advantages: [0, 0, -1, -1, -1],
      },
    ],
  );
});
