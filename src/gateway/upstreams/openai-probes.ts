/** The questions to an OpenAI-compatible endpoint: at most about twenty requests of a few tokens each. */
import type { Capabilities } from '../../contract/plan.ts';
import { demandOk, type Finding, type Probe, type ProbeReply } from './probe.ts';

const HELLO = 'Reply with the word ok.';
/** Words that no model says of its own accord: whoever says one was held to it. */
const LABELS = ['qx7', 'zk2'];
/** Room for thinking about a trifle. */
const THINKING_TOKENS = 512;
const LETTERS = [...'ABCDEFGHIJ123456789'];
/** A white pixel. */
const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mP8/x8AAwMCAO+ip1sAAAAASUVORK5CYII=';
const TOOL = { type: 'function', function: { name: 'note', parameters: { type: 'object', properties: {} } } };

type Value = Finding['value'];

function finding(capability: keyof Capabilities, value: Value, sign: string): Finding[] {
  return [{ capability, value, sign }];
}

function yesOrNo(
  capability: keyof Capabilities,
  { status, reason }: ProbeReply,
  shown: boolean,
  sign: string,
) {
  if (status !== 200) return finding(capability, false, `HTTP ${status}: ${reason.slice(0, 80)}`);
  return finding(capability, shown, shown ? sign : `no ${sign}`);
}

function textIn({ body }: ProbeReply): string {
  return body.choices?.[0]?.message?.content?.trim() ?? '';
}

/** The first question shows whether there is anybody, and whether they think before they answer. */
const reasoning: Probe = async (asker) => {
  const reply = await asker.chat(HELLO);
  // OpenAI's models that reason refuse a temperature, and know the limit by another name.
  const refused = reply.status === 400 && /max_completion_tokens|temperature/.test(reply.reason);
  if (!refused) demandOk(asker, reply);
  const said = reply.body.choices?.[0]?.message;
  const isAloud =
    Boolean(said?.reasoning_content ?? said?.reasoning) || /^\s*<think/i.test(said?.content ?? '');
  if (refused || isAloud) asker.limits = { max_completion_tokens: THINKING_TOKENS };
  if (refused) return finding('reasoning', true, reply.reason.slice(0, 80));
  return yesOrNo('reasoning', reply, isAloud, 'thinking before the answer');
};

const context: Probe = async (asker) => {
  const { body } = await asker.get('/models');
  const card = body.data?.find(({ id }) => id === asker.name);
  for (const field of ['max_model_len', 'context_length', 'context_window']) {
    const value = card?.[field];
    if (typeof value === 'number' && value >= 1)
      return finding('context', Math.floor(value), `${field} of GET /models`);
  }
  return [];
};

/** vLLM's default maximum and OpenAI's is 20; others allow 5 or so. */
const logprobs: Probe = async (asker) => {
  for (const top of [20, 5, 1]) {
    const { status, body } = await asker.chat(HELLO, { logprobs: true, top_logprobs: top });
    if (status !== 200) continue;
    const shown = body.choices?.[0]?.logprobs?.content?.[0]?.top_logprobs?.length;
    return finding(
      'logprobs',
      shown ? top : 0,
      shown ? `${shown} for top_logprobs ${top}` : 'no top_logprobs',
    );
  }
  return finding('logprobs', 0, 'refused');
};

const tokenIds: Probe = async (asker) => {
  const reply = await asker.chat(HELLO, { return_token_ids: true });
  const ids = Boolean(reply.body.choices?.[0]?.token_ids?.length && reply.body.prompt_token_ids?.length);
  return yesOrNo('tokenIds', reply, ids, 'token_ids and prompt_token_ids');
};

const tokenLogprobs: Probe = async (asker, found) => {
  if (!found.tokenIds) return [];
  const first = await asker.chat(HELLO, { return_token_ids: true });
  const ids = first.body.choices?.[0]?.token_ids?.slice(0, 1) ?? [];
  const reply = await asker.chat(HELLO, { logprobs: true, logprob_token_ids: ids });
  // Without the field nobody would list alternatives, as none were asked for.
  const listed = Boolean(reply.body.choices?.[0]?.logprobs?.content?.[0]?.top_logprobs?.length);
  return yesOrNo('tokenLogprobs', reply, listed, 'alternatives for logprob_token_ids');
};

const promptLogprobs: Probe = async (asker) => {
  const reply = await asker.chat(HELLO, { prompt_logprobs: 0 });
  return yesOrNo('promptLogprobs', reply, Boolean(reply.body.prompt_logprobs?.length), 'prompt_logprobs');
};

const CHOICES: Readonly<Record<NonNullable<Capabilities['choice']>, object>> = {
  structured_outputs: { structured_outputs: { choice: LABELS } },
  guided_choice: { guided_choice: LABELS },
  json_schema: {
    response_format: {
      type: 'json_schema',
      json_schema: {
        name: 'label',
        strict: true,
        schema: {
          type: 'object',
          properties: { label: { type: 'string', enum: LABELS } },
          required: ['label'],
          additionalProperties: false,
        },
      },
    },
  },
};

const choice: Probe = async (asker) => {
  for (const kind of ['structured_outputs', 'guided_choice', 'json_schema'] as const) {
    const text = textIn(await asker.chat('Say hello.', CHOICES[kind]));
    const said = /^\{\s*"label"\s*:\s*"(\w+)"\s*\}$/.exec(text)?.[1] ?? text;
    if (LABELS.includes(said)) return finding('choice', kind, `said ${said} when asked to say hello`);
  }
  return [];
};

/** Where nothing else holds an answer to a list: single letters and digits by their ids, if the server tells them. */
const labelTokens: Probe = async (asker, found) => {
  if (found.choice) return [];
  const { body } = await asker.post('//tokenize', { prompt: LETTERS.join('\n'), add_special_tokens: false });
  const ids = (body.tokens ?? []).filter((_id, index) => index % 2 === 0);
  if (body.tokens?.length !== 2 * LETTERS.length - 1) return [];
  const map: Record<string, number> = Object.fromEntries(
    LETTERS.map((letter, index) => [letter, ids[index] ?? 0]),
  );
  const fields = { logit_bias: { [map['J'] ?? 0]: 100 }, max_tokens: 1 };
  const said = textIn(await asker.chat('Say hello.', fields));
  return said === 'J' ? finding('labelTokens', map, 'said J under a logit_bias') : [];
};

/** vLLM refuses to go on with a message and to open a new one at once; whoever does not know the fields does not. */
const continuation: Probe = async (asker) => {
  const messages = [
    { role: 'user', content: 'Count from one to ten.' },
    { role: 'assistant', content: 'one, two,' },
  ];
  const going = { messages, continue_final_message: true };
  const reply = await asker.chat('', { ...going, add_generation_prompt: false });
  if (reply.status !== 200) return yesOrNo('continuation', reply, false, '');
  const contrary = await asker.chat('', { ...going, add_generation_prompt: true });
  return yesOrNo(
    'continuation',
    reply,
    contrary.status === 400,
    'refusal of continue_final_message with a new turn',
  );
};

const completions: Probe = async (asker) => {
  const reply = await asker.post('/completions', { prompt: 'one two three', max_tokens: 1, logprobs: 1 });
  const [first] = reply.body.choices ?? [];
  const told = typeof first?.text === 'string' && Boolean(first.logprobs);
  return yesOrNo('completions', reply, told, 'text with logprobs');
};

const tools: Probe = async (asker) => {
  const reply = await asker.chat('Take a note.', { tools: [TOOL], tool_choice: 'required', max_tokens: 64 });
  return yesOrNo('tools', reply, Boolean(reply.body.choices?.[0]?.message?.tool_calls?.length), 'tool_calls');
};

/** An image costs tokens: whoever drops it in silence counts none. */
const images: Probe = async (asker) => {
  const text = { type: 'text', text: HELLO };
  const picture = { type: 'image_url', image_url: { url: PIXEL } };
  const [plain, seen] = [
    await asker.chat(HELLO),
    await asker.chat('', { messages: [{ role: 'user', content: [text, picture] }] }),
  ];
  const tokens = ({ body }: ProbeReply) => body.usage?.prompt_tokens ?? 0;
  return yesOrNo('images', seen, tokens(seen) > tokens(plain), 'tokens for an image');
};

export const OPENAI_PROBES: readonly Probe[] = [
  reasoning,
  context,
  choice,
  labelTokens,
  logprobs,
  tokenIds,
  tokenLogprobs,
  promptLogprobs,
  continuation,
  completions,
  tools,
  images,
];
