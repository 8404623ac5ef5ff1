import fc from 'fast-check';
import t from 'tap';
import { MAX_EVENT_CHARS, SseDecoder } from '../../src/gateway/upstreams/sse-decoder.ts';

const bytes = (text: string) => new TextEncoder().encode(text);

function decode(chunks: Iterable<Uint8Array>): string[] {
  const events: string[] = [];
  const decoder = new SseDecoder((data) => events.push(data));
  for (const chunk of chunks) decoder.push(chunk);
  return events;
}

function split(whole: Uint8Array, at: readonly number[]): Uint8Array[] {
  const cuts = [0, ...at.map((cut) => cut % (whole.length + 1)).toSorted((a, b) => a - b), whole.length];
  return cuts.slice(1).map((end, index) => whole.subarray(cuts[index], end));
}

/** The standard's algorithm, word by word, over the whole text: WHATWG HTML 9.2.6. */
function reference(text: string): string[] {
  const events: string[] = [];
  let data = '';
  const lines = text.replace(/^\u{feff}/u, '').split(/\r\n|\r|\n/);
  lines.pop();
  for (const line of lines) {
    if (line === '') {
      // We have no use for an event whose data is nothing: it is a heartbeat.
      if (data !== '' && data !== '\n') events.push(data.slice(0, -1));
      data = '';
      continue;
    }
    const colon = line.indexOf(':');
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') data += `${value}\n`;
  }
  return events;
}

const line = fc.oneof(
  fc.constantFrom(
    'data',
    'data:',
    'data: ',
    'data:  two',
    ':',
    ': ping',
    'event: keepalive',
    'id: 7',
    'retry: 5',
  ),
  fc.constantFrom('dat', 'datax: no', ' data: no', 'data : no', '', ''),
  fc.string({ unit: 'grapheme', maxLength: 8 }).map((text) => `data: ${text.replace(/[\r\n]/g, '')}`),
  fc.string({ unit: 'binary', maxLength: 6 }).map((text) => `data:${text.replace(/[\r\n]/g, '')}`),
);
const stream = fc
  .array(fc.tuple(line, fc.constantFrom('\n', '\r', '\r\n')), { maxLength: 20 })
  .map((lines) => lines.map((pair) => pair.join('')).join(''))
  // A CR that ends one line and an LF that ends the next, empty one are one line end on the wire.
  .map((text) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes(text)));

t.test('decodes any stream as the standard says, however its bytes are split', (t) => {
  fc.assert(
    fc.property(stream, fc.array(fc.nat(), { maxLength: 12 }), (text, cuts) => {
      const expected = JSON.stringify(reference(text));
      const whole = bytes(text);
      const pieces = decode(split(whole, cuts));
      const single = decode(Array.from(whole, (_, index) => whole.subarray(index, index + 1)));
      return JSON.stringify(pieces) === expected && JSON.stringify(single) === expected;
    }),
    { numRuns: 1_000 },
  );
  t.end();
});

t.test('keeps a character that is split at any byte', (t) => {
  const whole = bytes('data:{"text":"ö 😀 日本"}\n\n');
  for (let cut = 0; cut <= whole.length; cut++) {
    t.strictSame(decode(split(whole, [cut])), ['{"text":"ö 😀 日本"}']);
  }
  t.end();
});

t.test('gives each event as soon as its empty line is there, for each line ending', (t) => {
  for (const [end, rest] of [
    ['\n', ''],
    ['\r\n', ''],
    // After a lone CR an LF may follow, and it must not be waited for.
    ['\r', '\n'],
  ] as const) {
    const events: string[] = [];
    const decoder = new SseDecoder((data) => events.push(data));
    decoder.push(bytes(`data: 1${end}${end}`));
    t.strictSame(events, ['1']);
    decoder.push(bytes(`${rest}data: 2${end}${end}`));
    t.strictSame(events, ['1', '2']);
  }
  t.end();
});

t.test('drops a byte order mark, comments, other fields, empty data and a broken-off end', (t) => {
  const text =
    '\u{feff}data: 1\n\n: OPENROUTER PROCESSING\n\nevent: keepalive\n\ndata:\n\ndata\n\nid: 3\ndata:2\n\ndata: 3\n';
  t.strictSame(decode([bytes(text)]), ['1', '2']);
  t.end();
});

t.test('refuses an event that never ends, in one line or in many', (t) => {
  const mebibyte = bytes('x'.repeat(1_048_576));
  const endless = new SseDecoder(() => undefined);
  endless.push(bytes('data: '));
  for (let size = 1; size * 1_048_576 < MAX_EVENT_CHARS; size++) endless.push(mebibyte);
  t.throws(() => endless.push(mebibyte), { name: 'RangeError', message: /more than \d+ characters/ });

  const many = new SseDecoder(() => undefined);
  const lines = bytes(`data: ${'x'.repeat(1_000)}\n`.repeat(1_000));
  t.throws(() => {
    for (let i = 0; i < 6; i++) many.push(lines);
  }, RangeError);
  t.end();
});

t.test('does not look again at what it has seen when an event comes byte by byte', (t) => {
  const size = 400_000;
  const whole = bytes(`data: ${'x'.repeat(size)}\n\n`);
  const timeOf = (work: () => void) => {
    const begun = performance.now();
    work();
    return performance.now() - begun;
  };
  const pieces = Array.from(whole, (_, index) => whole.subarray(index, index + 1));
  let length = 0;
  const tiny = timeOf(() => {
    length = decode(pieces)[0]?.length ?? 0;
  });
  t.equal(length, size);
  // Linear: some 0.2 s. Looking at the whole line for each byte would be 8·10¹⁰ steps.
  t.ok(tiny < 5_000, `${Math.round(tiny)} ms`);
  t.end();
});
