/** Exercises what works below words: unfinished answers, single tokens by their ids, their log-probabilities. */
import assert from 'node:assert/strict';
import { TinyTeam } from './client.ts';

interface Entry {
  token: string;
  logprob: number;
  top_logprobs: { token: string; logprob: number }[];
}
interface ChatAnswer {
  choices: {
    message: { content: string };
    logprobs: { content: Entry[] } | null;
    token_ids?: number[];
    finish_reason: string;
  }[];
  prompt_token_ids?: number[];
  usage: { prompt_tokens: number };
}
interface Completion {
  choices: {
    text: string;
    logprobs: {
      tokens: string[];
      token_logprobs: number[];
      top_logprobs: Record<string, number>[];
      text_offset: number[];
    } | null;
    prompt_token_ids: number[] | null;
    token_ids: number[] | null;
    finish_reason: string;
  }[];
}

const model = 'tiny-dot';
const question = { role: 'user', content: 'What is 37 + 58? End with: The answer is X.' };
const greedy = { model, messages: [question], temperature: 0, max_tokens: 24 };
const byIds = { return_token_ids: true, return_tokens_as_token_ids: true };

await using team = await TinyTeam.start();

async function ask<Answer>(route: string, body: object, status = 200): Promise<Answer> {
  const response = await fetch(`${team.baseUrl}${route}`, { method: 'POST', body: JSON.stringify(body) });
  const answer = (await response.json()) as Answer;
  assert.equal(response.status, status, JSON.stringify(answer));
  return answer;
}
const chat = (body: object): Promise<ChatAnswer> => ask('/chat/completions', body);
const complete = (body: object): Promise<Completion> => ask('/completions', body);
const only = <Item>([item]: readonly Item[]): Item => item ?? assert.fail('nothing there');
const idOf = (token: string): number => Number(/^token_id:(\d+)$/.exec(token)?.[1] ?? assert.fail(token));

const whole = await chat({ ...greedy, ...byIds, logprobs: true, top_logprobs: 5 });
const prompt = whole.prompt_token_ids ?? [];
const said = only(whole.choices);
const ids = said.token_ids ?? [];

const checks: Record<string, () => Promise<void>> = {
  async 'goes on with an unfinished answer as if it had not been cut'() {
    const text = said.message.content;
    // At the ends of tokens: a text that is cut within one is read as other tokens.
    for (const cut of [3, 10, text.length - 1]) {
      const messages = [question, { role: 'assistant', content: text.slice(0, cut) }];
      const fields = { continue_final_message: true, add_generation_prompt: false };
      const rest = only((await chat({ ...greedy, messages, ...fields })).choices);
      assert.equal(text.slice(0, cut) + rest.message.content, text);
      assert.equal(rest.finish_reason, 'stop');
    }
  },

  async 'can leave out the opening of the reply'() {
    const plain = await chat({ ...greedy, max_tokens: 1, add_generation_prompt: false, ...byIds });
    assert.deepEqual(plain.prompt_token_ids, prompt.slice(0, -1));
  },

  async 'gives the next tokens after ids one by one, each as in the whole answer'() {
    const pieces: string[] = [];
    for (const [at, id] of ids.entries()) {
      const before = [...prompt, ...ids.slice(0, at)];
      const asked = { model, prompt: before, max_tokens: 1, temperature: 0, logprobs: 5, ...byIds };
      const step = only((await complete(asked)).choices);
      assert.deepEqual([step.prompt_token_ids, step.token_ids], [before, [id]]);
      const entry = said.logprobs?.content[at] ?? assert.fail();
      assert.equal(idOf(only(step.logprobs?.tokens ?? [])), id);
      const own = only(step.logprobs?.token_logprobs ?? []);
      assert.ok(Math.abs(own - entry.logprob) < 0.01);
      assert.equal(Object.keys(only(step.logprobs?.top_logprobs ?? [])).length, 5);
      assert.equal(step.finish_reason, at === ids.length - 1 ? 'stop' : 'length');
      pieces.push(step.text);
    }
    assert.equal(pieces.join(''), said.message.content);
  },

  async 'gives the log-probabilities of tokens that are named, on both routes'() {
    const named = [5, 9, 300];
    const shown = { logprob_token_ids: named, max_tokens: 1, temperature: 0, ...byIds };
    const { logprobs } = only((await complete({ model, prompt, logprobs: 0, ...shown })).choices);
    const top = only(logprobs?.top_logprobs ?? []);
    const wanted = [ids[0], ...named].map((id) => `token_id:${id}`).toSorted();
    assert.deepEqual(Object.keys(top).toSorted(), wanted);
    const spoken = await chat({ ...greedy, ...shown, logprobs: true });
    const entries = only(only(spoken.choices).logprobs?.content ?? []).top_logprobs;
    assert.deepEqual(Object.fromEntries(entries.map(({ token, logprob }) => [token, logprob])), top);
  },

  async 'says the one token that is allowed, and whether it ends the answer'() {
    const end = ids.at(-1) ?? assert.fail();
    const first = ids[0] ?? assert.fail();
    for (const [id, finish] of [
      [end, 'stop'],
      [first, 'length'],
      [300, 'length'],
    ] as const) {
      const asked = { model, prompt, max_tokens: 1, temperature: 0, allowed_token_ids: [id], ...byIds };
      const step = only((await complete(asked)).choices);
      assert.deepEqual([step.token_ids, step.finish_reason], [[id], finish]);
    }
  },

  async 'says a character of several tokens when the last has come'() {
    const spider = only((await complete({ model, prompt: '🕷', max_tokens: 1, ...byIds })).choices);
    const bytes = spider.prompt_token_ids ?? [];
    assert.ok(bytes.length > 1);
    const pieces: string[] = [];
    for (const [at, id] of bytes.entries()) {
      const before = [...prompt, ...bytes.slice(0, at)];
      const asked = { model, prompt: before, max_tokens: 1, temperature: 0, allowed_token_ids: [id] };
      pieces.push(only((await complete(asked)).choices).text);
    }
    assert.deepEqual(pieces, [...bytes.slice(1).map(() => ''), '🕷']);
  },

  async 'shows words where ids are not asked for'() {
    const asked = { model, prompt, max_tokens: 3, temperature: 0, logprobs: 1 };
    const { text, logprobs, token_ids } = only((await complete(asked)).choices);
    assert.equal(logprobs?.tokens.join(''), text);
    assert.equal(token_ids, null);
    assert.equal(logprobs?.text_offset.length, 3);
    assert.equal(logprobs?.text_offset[1], logprobs?.tokens[0]?.length);
  },

  async 'refuses what does not go together'() {
    const refusals: [string, object, RegExp][] = [
      ['/completions', { model, prompt, logprob_token_ids: [1] }, /logprobs to be set/],
      ['/completions', { model, prompt, logprobs: 1, logprob_token_ids: [] }, /logprob_token_ids is \[\]/],
      ['/completions', { model, prompt, logprobs: 21 }, /logprobs is 21/],
      ['/completions', { model, prompt, allowed_token_ids: [99999] }, /allowed_token_ids is 99999/],
      ['/chat/completions', { ...greedy, logprob_token_ids: [1] }, /logprobs to be true/],
      [
        '/chat/completions',
        { ...greedy, continue_final_message: true, add_generation_prompt: true },
        /add_generation_prompt is true/,
      ],
    ];
    for (const [route, body, message] of refusals) {
      const { error } = await ask<{ error: { message: string } }>(route, body, 400);
      assert.match(error.message, message);
    }
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(`ok  ${name}`);
}
