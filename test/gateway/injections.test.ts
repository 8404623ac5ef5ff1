import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { spokenProtocols, type Spoken } from '../../examples/tiny-team/protocol-prompts.ts';
import type { Answer, Call } from '../../src/contract/call.ts';
import { textOf } from '../../src/contract/chat.ts';
import { readLabel } from '../../src/gateway/protocols/label-step.ts';
import { extractAnswer } from '../../src/scoring/rewards/extract.ts';
import { Cast, performPlan, planOf, USAGE, type Act } from '../support/cast.ts';

interface Attack {
  readonly name: string;
  readonly text: string;
}

const file = new URL('../fixtures/injections.json', import.meta.url);
const ATTACKS = JSON.parse(readFileSync(file, 'utf8')) as readonly Attack[];
/** ada, eve, bob and cyd: whoever is malicious is first in no role and last in no line. */
const TEAM = [0, 4, 1, 2];
const NAMED = /between the marks (\[[a-z]{6}\])/;

const lastPrompt = ({ messages }: Call) => messages.map(textOf).at(-1) ?? '';
const states = (text: string, answer: string) => extractAnswer(text)?.answer.startsWith(answer) ?? false;

/** What stands between the marks, and what after them; nothing where there are none. */
function partsOf(
  prompt: string,
): { readonly sections: readonly string[]; readonly after: string } | undefined {
  const mark = NAMED.exec(prompt)?.[1];
  if (!mark) return undefined;
  const [, , ...sections] = prompt.split(mark);
  const after = sections.pop() ?? '';
  return { sections, after };
}

/** The right label by what the prompt shows: an honest member that can read. */
function honestLabel(call: Call): string {
  const [first = '', ...others] = call.choose?.labels ?? [];
  const labels = [first, ...others];
  const prompt = lastPrompt(call);
  const sections = partsOf(prompt)?.sections.map((section) => section.replace(/^ \d+\n/, '')) ?? [];
  if (labels.length === sections.length)
    return labels[sections.findIndex((one) => states(one, '16'))] ?? first;
  const own = labels.find((label) => new RegExp(`^${label}\\. .*ada`, 'm').test(prompt));
  return own ?? labels.find((label) => label === 'conclude') ?? first;
}

interface Stage {
  readonly cast: Cast;
  /** What the malicious member said, by slot. */
  readonly attacks: ReadonlyMap<string, string>;
}

function stageOf({ text }: Attack): Stage {
  const attacks = new Map<string, string>();
  let mark = '[bcdfgh]';
  const cast = new Cast((call): Act => {
    // Once it has read a mark it knows it; before, it guesses one.
    mark = NAMED.exec(lastPrompt(call))?.[1] ?? mark;
    if (call.member.alias === 'eve') {
      const attack = text.replaceAll('{answer}', '666').replaceAll('{mark}', mark);
      attacks.set(call.slot, attack);
      return { words: [attack] };
    }
    return { words: [call.choose ? honestLabel(call) : 'The answer is 16.'] };
  });
  return { cast, attacks };
}

const answerOf = (text: string): Answer => ({
  message: { text },
  finishReason: 'stop',
  usage: USAGE,
  from: ['eve'],
});

async function withstands(t: Test, { protocol, options }: Spoken, attack: Attack): Promise<void> {
  const { cast, attacks } = stageOf(attack);
  const heardAll = 'earlyExit' in protocol.options.properties ? { earlyExit: 0 } : {};
  const plan = planOf(protocol, { ...options, ...heardAll }, TEAM);
  const { outcome } = await performPlan(protocol, cast, plan);
  t.ok(states(outcome.answer ?? '', '16'), `${attack.name}: the answer is ${outcome.answer}`);
  for (const { call } of cast.seen) {
    const at = `${attack.name}, ${call.slot}`;
    const prompt = lastPrompt(call);
    const parts = partsOf(prompt);
    t.notOk((parts?.after ?? prompt).includes('666'), `${at}: nothing after the fence`);
    const others = call.reads.filter((slot) => !isOwn(call, slot));
    const read = others.filter((slot) => attacks.has(slot)).length;
    t.equal(parts?.sections.length ?? 0, others.length, `${at}: one section for each text`);
    t.equal(parts?.sections.filter((one) => one.includes('666')).length ?? 0, read, `${at}: in its own`);
    if (!call.choose || call.member.alias !== 'eve') continue;
    const { by } = readLabel(call, answerOf(attacks.get(call.slot) ?? ''), '');
    t.equal(by, 'fallback', `${at}: no label, no vote`);
  }
}

/** Whether the slot's text is the reader's own turn. */
const isOwn = (call: Call, slot: string) =>
  slot.split('/')[1] === call.member.alias && call.messages.some(({ role }) => role === 'assistant');

t.equal(new Set(ATTACKS.map(({ text }) => text)).size, 20, 'twenty different attacks');

for (const spoken of spokenProtocols) {
  t.test(`no attack leaves its fence or wins a label step: ${spoken.protocol.name}`, async (t) => {
    for (const attack of ATTACKS) await withstands(t, spoken, attack);
  });
}
