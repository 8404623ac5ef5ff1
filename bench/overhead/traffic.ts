/** The traffic of the benchmark: one request of about 600 bytes, one answer of about 1 KB, one stream. */
const LETTER = 'The quick brown fox jumps over the lazy dog while the band plays on. ';

const MESSAGES = [
  { role: 'system', content: `You are a careful assistant. ${LETTER}` },
  { role: 'user', content: LETTER.repeat(5) },
];

export const CHUNKS = 100;

/** The one API key of the benchmark: nothing but loopback listens. */
export const KEY = 'bench-key-of-loopback';

export function requestBody(model: string, stream: boolean, more: readonly object[] = []): string {
  return JSON.stringify({
    model,
    messages: [...MESSAGES, ...more],
    temperature: 0.7,
    max_tokens: 256,
    stream,
  });
}

const IDENTITY = { id: 'chatcmpl-bench0000000000000000000', created: 1_760_000_000, model: 'bench-model' };
const USAGE = { prompt_tokens: 120, completion_tokens: CHUNKS, total_tokens: 120 + CHUNKS };

export const WHOLE = JSON.stringify({
  ...IDENTITY,
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: LETTER.repeat(10), refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage: USAGE,
});

function event(choices: readonly object[], usage: object | null): string {
  const chunk = { ...IDENTITY, object: 'chat.completion.chunk', choices, usage };
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

/** The events of one stream but the end mark: words, the finish, the usage. */
export const EVENTS: readonly string[] = [
  ...Array.from({ length: CHUNKS }, (_, index) =>
    event([{ index: 0, delta: { content: ` word${index}` }, logprobs: null, finish_reason: null }], null),
  ),
  event([{ index: 0, delta: {}, logprobs: null, finish_reason: 'stop' }], null),
  event([], USAGE),
];
