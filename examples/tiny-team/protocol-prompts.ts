/**
 * Prompts of all protocols whose members speak in words: one of them is run on made-up members with made-up answers,
 * and one of the calls that it makes is kept. The protocols come from the product's list, so new ones are in it.
 */
import { optionsFor } from '../../src/gateway/catalog.ts';
import { protocols } from '../../src/gateway/protocols/index.ts';
import type { Options, Protocol } from '../../src/gateway/protocols/protocol.ts';
import type { Call } from '../../src/contract/call.ts';
import type { Member } from '../../src/contract/plan.ts';
import { labelTarget, statedIn, type Target } from './label-targets.ts';
import { SMALL_OPTIONS } from './small-options.ts';
import { kinds, type Draw, type Question } from './task-kinds.ts';
import { callsOf, memberOf, type Chance } from './team-run.ts';

export interface Spoken {
  readonly protocol: Protocol;
  /** As an operator would write them. */
  readonly given: Options;
  /** With the defaults filled in. */
  readonly options: Options;
}

/** Below the level of words there is nothing to practise: those protocols need what the prompts do not show. */
export const spokenProtocols: readonly Spoken[] = protocols
  .map((protocol) => {
    const given = SMALL_OPTIONS[protocol.name] ?? {};
    return { protocol, given, options: optionsFor(protocol, given) };
  })
  .filter(({ protocol, options }) => (protocol.needs?.(options) ?? []).length === 0);

export interface Opinions {
  readonly draw: Draw;
  readonly chance: Chance;
  /** What a member says to the question. */
  readonly reply: () => string;
  /** What one says who has nothing to go by. */
  readonly blindGuess: () => string;
  readonly mostCommon: (voices: readonly string[]) => string;
}

export interface Practice extends Target {
  readonly protocol: string;
  readonly messages: Call['messages'];
  readonly isLabel: boolean;
}

/** One call of one protocol, both drawn, with what is to be answered; protocols that only ask plainly are passed over. */
export async function practiceOf(question: Question, opinions: Opinions): Promise<Practice> {
  const { draw, chance, reply } = opinions;
  for (;;) {
    const { protocol, options } = spokenProtocols[draw(spokenProtocols.length)] ?? {};
    if (!protocol || !options) throw new RangeError('there is no protocol');
    const texts = new Map<string, string>();
    const say = (call: Call): string => {
      const labels = call.choose?.labels;
      const text = labels ? (labels[draw(labels.length)] ?? '') : reply();
      texts.set(call.slot, text);
      return text;
    };
    const calls = await callsOf(protocol, options, question.prompt, {
      team: teamFor(question, draw),
      chance,
      say,
    });
    const call = oneOf(calls, draw);
    if (call) return { protocol: protocol.name, ...practised(call, question, texts, opinions) };
  }
}

/** Two to four members; one of them, seldom another too, is described as practised in the kind. */
function teamFor({ kind }: Question, draw: Draw): Member[] {
  const size = 2 + draw(3);
  const able = draw(size);
  const others = kinds.filter((other) => other !== kind);
  return Array.from({ length: size }, (_, seat) => {
    const first = others[draw(others.length)] ?? kind;
    const isAble = seat === able || draw(5) === 0;
    const second = isAble ? kind : (others[draw(others.length)] ?? kind);
    const pair = draw(2) === 0 ? [first, second] : [second, first];
    return memberOf(seat, `0.43M parameters, practised in ${[...new Set(pair)].join(' and ')}`);
  });
}

/** A stage is drawn, and one of its calls, so that rare stages are practised as often as wide ones. */
function oneOf(calls: readonly Call[], draw: Draw): Call | undefined {
  const read = calls.filter((call) => call.choose !== undefined || call.reads.length > 0 || !isPlain(call));
  const stageOf = ({ slot, purpose }: Call): string => `${slot.split('/')[0] ?? ''} ${purpose}`;
  const stages = [...Map.groupBy(read, stageOf).values()];
  const stage = stages[draw(Math.max(1, stages.length))] ?? [];
  return stage[draw(Math.max(1, stage.length))];
}

function isPlain({ messages }: Call): boolean {
  return messages.length === 1 && String(messages[0]?.content).endsWith('End with: The answer is X.');
}

function practised(
  call: Call,
  question: Question,
  texts: ReadonlyMap<string, string>,
  { draw, blindGuess, mostCommon }: Opinions,
): Omit<Practice, 'protocol'> {
  const { messages } = call;
  if (call.choose) return { messages, isLabel: true, ...labelTarget(call, question, draw) };
  const voices = call.reads.flatMap((slot) => statedIn(texts.get(slot) ?? '') ?? []);
  const guess = voices.length > 0 ? mostCommon(voices) : blindGuess();
  return { messages, isLabel: false, gold: question.gold, guess };
}
