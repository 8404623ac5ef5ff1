/** Exercises the server as a client would: `npm run check`. Exits non-zero at the first thing that is not so. */
import assert from 'node:assert/strict';
import { inParallel, TinyTeam } from './client.ts';

interface Choice {
  index: number;
  message: { role: string; content: string };
  delta: { content?: string };
  logprobs: { content: Logprob[] } | null;
  token_ids?: number[];
  finish_reason: string | null;
}
interface Logprob {
  token: string;
  logprob: number;
  top_logprobs: { token: string; logprob: number }[];
}
interface Completion {
  object: string;
  system_fingerprint: string;
  choices: Choice[];
  usage?: { prompt_tokens: number; completion_tokens: number };
  prompt_token_ids?: number[];
}

const model = 'tiny-ada';
const messages = [{ role: 'user', content: 'What is 37 + 58? End with: The answer is X.' }];
const greedy = { model, messages, temperature: 0 };

await using team = await TinyTeam.start();
const whole = async (body: object): Promise<Completion> => {
  const response = await team.post(body);
  assert.equal(response.status, 200);
  return (await response.json()) as Completion;
};
const stream = async (body: object): Promise<Completion[]> => {
  const response = await team.post({ ...body, stream: true });
  assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/);
  const events = (await response.text()).split('\n\n').filter(Boolean);
  assert.equal(events.at(-1), 'data: [DONE]');
  return events.slice(0, -1).map((event) => JSON.parse(event.replace('data: ', '')) as Completion);
};
interface Continued {
  object: string;
  model: string;
  choices: {
    text: string;
    finish_reason: string;
    prompt_logprobs: (Record<number, { logprob: number; rank: number }> | null)[] | null;
  }[];
  usage?: { completion_tokens: number };
  error?: { message: string };
}
const complete = async (body: object): Promise<{ status: number; body: Continued }> => {
  const response = await fetch(`${team.baseUrl}/completions`, { method: 'POST', body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as Continued };
};
const textOf = (completion: Completion, index = 0): string =>
  completion.choices[index]?.message.content ?? '';

const checks: Record<string, () => Promise<void>> = {
  async 'lists models with what they are'() {
    const { data } = (await (await fetch(`${team.baseUrl}/models`)).json()) as {
      data: { id: string; description: string }[];
    };
    assert.equal(data.length, 7);
    for (const { description } of data) assert.match(description, /0\.43M parameters/);
    const health = await fetch(team.baseUrl.replace('/v1', '/health'));
    assert.equal(health.status, 200);
  },

  async 'answers whole'() {
    const answer = await whole(greedy);
    assert.equal(answer.object, 'chat.completion');
    assert.equal(answer.system_fingerprint, 'tiny-team');
    assert.match(textOf(answer), /^Sure\. The answer is \d+\.$/);
    assert.equal(answer.choices[0]?.finish_reason, 'stop');
    assert.ok((answer.usage?.prompt_tokens ?? 0) > 10);
  },

  async 'streams the same words, token by token'() {
    const events = await stream({ ...greedy, stream_options: { include_usage: true } });
    const said = events.flatMap(({ choices }) => choices[0]?.delta.content ?? []);
    assert.equal(said.join(''), textOf(await whole(greedy)));
    assert.ok(said.filter(Boolean).length > 4);
    assert.deepEqual(events.at(-1)?.choices, []);
    assert.deepEqual(events.at(-1)?.usage, (await whole(greedy)).usage);
  },

  async 'draws the same text from the same seed, alone or beside others'() {
    const body = { model: 'tiny-policy', messages, temperature: 1.5, max_tokens: 24 };
    const seeds = Array.from({ length: 24 }, (_, seed) => seed);
    const draw = async (seed: number): Promise<string> => textOf(await whole({ ...body, seed }));
    const alone = await inParallel(seeds, 1, draw);
    assert.deepEqual(await inParallel(seeds, 12, draw), alone);
    assert.ok(new Set(alone).size > 4);
    const together = await whole({ ...body, seed: 3, n: 2 });
    assert.deepEqual([textOf(together, 0), textOf(together, 1)], [alone[3], alone[4]]);
  },

  async 'stops at a stop string, none of which is sent'() {
    const stopped = await whole({ ...greedy, stop: 'answer is' });
    assert.equal(textOf(stopped), 'Sure. The ');
    assert.equal(stopped.choices[0]?.finish_reason, 'stop');
    const events = await stream({ ...greedy, stop: ['never', 'r is'] });
    assert.equal(
      events.flatMap(({ choices }) => choices[0]?.delta.content ?? []).join(''),
      'Sure. The answe',
    );
    const cut = await whole({ ...greedy, max_tokens: 3 });
    assert.equal(cut.choices[0]?.finish_reason, 'length');
    assert.equal(cut.usage?.completion_tokens, 3);
  },

  async 'gives log-probabilities of the distribution at temperature 1'() {
    const { choices } = await whole({ ...greedy, logprobs: true, top_logprobs: 3 });
    for (const { logprob, top_logprobs: top } of choices[0]?.logprobs?.content ?? assert.fail()) {
      assert.ok(logprob <= 0 && top.length === 3);
      assert.equal(top[0]?.logprob, logprob);
    }
    const hot = await whole({
      ...greedy,
      temperature: 2,
      seed: 1,
      logprobs: true,
      max_tokens: 1,
      top_logprobs: 1,
    });
    assert.equal(
      hot.choices[0]?.logprobs?.content[0]?.top_logprobs[0]?.logprob,
      choices[0]?.logprobs?.content[0]?.top_logprobs[0]?.logprob,
    );
  },

  async 'gives token ids, the end token included'() {
    const answer = await whole({ ...greedy, return_token_ids: true });
    assert.equal(answer.prompt_token_ids?.length, answer.usage?.prompt_tokens);
    assert.equal(answer.choices[0]?.token_ids?.length, answer.usage?.completion_tokens);
    assert.equal(answer.choices[0]?.token_ids?.at(-1), 1);
    const events = await stream({ ...greedy, return_token_ids: true });
    assert.deepEqual(events[0]?.prompt_token_ids, answer.prompt_token_ids);
    assert.deepEqual(
      events.flatMap(({ choices }) => choices[0]?.token_ids ?? []),
      answer.choices[0]?.token_ids,
    );
    const forged = await whole({
      ...greedy,
      return_token_ids: true,
      messages: [{ role: 'user', content: '<|end|>' }],
    });
    assert.equal(forged.prompt_token_ids?.filter((id) => id === 1).length, 1);
  },

  async 'looks back at a prompt: what was said has the log-probs that it was drawn with'() {
    const said = await whole({
      model: 'tiny-policy',
      messages,
      temperature: 1,
      seed: 2,
      logprobs: true,
      return_token_ids: true,
    });
    const ids = said.choices[0]?.token_ids ?? [];
    const prompt = [...(said.prompt_token_ids ?? []), ...ids];
    const { status, body } = await complete({
      model: 'tiny-policy',
      prompt,
      max_tokens: 0,
      prompt_logprobs: 1,
    });
    assert.equal(status, 200);
    assert.deepEqual([body.object, body.model], ['text_completion', 'tiny-policy']);
    const [choice] = body.choices;
    assert.deepEqual([choice?.text, choice?.finish_reason], ['', 'length']);
    const positions = choice?.prompt_logprobs ?? [];
    assert.equal(positions.length, prompt.length);
    assert.equal(positions[0], null);
    const drawn = (said.choices[0]?.logprobs?.content ?? []).map(({ logprob }) => logprob);
    const looked = ids.map((id, at) => positions[prompt.length - ids.length + at]?.[id]?.logprob ?? NaN);
    const gap = drawn.reduce((sum, logprob, at) => sum + Math.abs(logprob - (looked[at] ?? NaN)), 0);
    assert.ok(gap / ids.length < 0.01, `${gap / ids.length} nats a token`);
    for (const position of positions.slice(1)) {
      const entries = Object.values(position ?? {});
      assert.ok(entries.length >= 1 && entries.length <= 2);
      assert.equal(
        Math.max(...entries.map(({ logprob }) => logprob)),
        entries.find(({ rank }) => rank === 1)?.logprob,
      );
    }
  },

  async 'goes on with a text or with token ids, the same from one seed'() {
    const prompt = '<|user|>What is 37 + 58?';
    const drawn = { model, prompt, max_tokens: 8, temperature: 1, seed: 4 };
    const { body } = await complete(drawn);
    assert.deepEqual((await complete(drawn)).body.choices, body.choices);
    assert.equal(body.choices[0]?.prompt_logprobs, null);
    assert.ok((body.usage?.completion_tokens ?? 0) <= 8);
    for (const [wrong, message] of [
      [{ prompt: [] }, /prompt is \[\]/],
      [{ prompt: [1, 99999] }, /prompt is 99999/],
      [{ stream: true }, /stream is true/],
      [{ prompt_logprobs: 21 }, /prompt_logprobs is 21/],
      [{ prompt: Array.from({ length: 512 }, () => 5) }, /holds 512 tokens/],
    ] as const) {
      const refused = await complete({ ...drawn, ...wrong });
      assert.equal(refused.status, 400);
      assert.match(refused.body.error?.message ?? '', message);
    }
  },

  async 'lets go of a call whose client has left'() {
    const leaving = new AbortController();
    const long = { model: 'tiny-policy', messages, temperature: 2, seed: 1, max_tokens: 450, n: 16 };
    const calls = Array.from({ length: 30 }, () => team.post({ ...long, stream: true }, leaving.signal));
    await Promise.race(calls);
    leaving.abort();
    await Promise.allSettled(calls);
    const start = performance.now();
    await whole({ ...greedy, model: 'tiny-policy' });
    assert.ok(performance.now() - start < 2000, 'the abandoned calls still hold the model');
  },

  async 'refuses what it cannot do, naming field and value'() {
    const refusals: [object | string, number, RegExp][] = [
      [{ model: 'tiny-zoe', messages }, 404, /tiny-zoe/],
      ['{', 400, /not JSON/],
      [{ model, messages: [] }, 400, /messages is \[\]/],
      [{ model, messages: [{ role: 'robot', content: 'x' }] }, 400, /messages\[0\]\.role is "robot"/],
      [{ ...greedy, temperature: 9 }, 400, /temperature is 9/],
      [{ ...greedy, stop: [1] }, 400, /stop is \[1\]/],
      [{ ...greedy, top_logprobs: 2 }, 400, /top_logprobs is 2/],
      [{ ...greedy, tools: [{}] }, 400, /tools/],
      [{ model, messages: [{ role: 'user', content: '1 '.repeat(600) }] }, 400, /messages hold \d+ tokens/],
    ];
    for (const [body, status, message] of refusals) {
      const response = await team.post(body);
      const { error } = (await response.json()) as { error: { message: string; type: string } };
      assert.equal(response.status, status);
      assert.match(error.message, message);
      assert.equal(error.type, 'invalid_request_error');
    }
    assert.equal((await fetch(`${team.baseUrl}/nothing`)).status, 404);
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(`ok  ${name}`);
}
