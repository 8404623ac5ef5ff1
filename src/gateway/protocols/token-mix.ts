/**
 * A text that members write token by token: each says how likely it finds every next token, one token is drawn from
 * what a mixture makes of that, and it is given to all of them. What logit-fusion and logit-contrast have in common.
 *
 * The prompt is rendered once for each member, as templates may differ; then only ids go back and forth. A vocabulary is
 * taken for the same when it splits PROBE into the same ids. A token's words, and whether it ends the answer, come from
 * a member that would have said it itself; where there is none, one is asked what it says when it may say nothing else.
 */
import type { Answer, Call, Purpose, TokenQuestion } from '../../contract/call.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Part } from '../../contract/part.ts';
import type { Member } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { askAll, callOf, Round, type Contribution } from './ask-all.ts';
import { endText, GrowingText, say, tokenLimit } from './growing-text.ts';
import type { ProtocolContext } from './protocol.ts';
import { refuseForm } from './refuse-form.ts';
import { answerAlone } from './single.ts';
import { draw, floorOf, type Mixture, type Values } from './token-values.ts';

/** Scripts, digits, code and spaces: two vocabularies that agree on all of it are one. */
const PROBE =
  'The quick brown fox, 1234567890.5!\n\tdef f(x): return x**2 # naïve Größe\n' +
  'съешь ещё этих булок 今日は世界 مرحبا 안녕 🕷️ ∑≤∞ {"a": [0.1e-7]}  end';

export interface MixOptions {
  readonly name: string;
  readonly mixture: Mixture;
  /** How many of the likeliest tokens each member is asked for. */
  readonly top: number;
  readonly maxTokens: number;
}

/** A member with its own rendering of the prompt. */
interface Voice {
  readonly member: Member;
  readonly prompt: readonly number[];
}

/** A token that was drawn: what it says, and whether it ends the answer. */
interface Drawn {
  readonly id: number;
  readonly text: string;
  readonly isEnd: boolean;
}

/** One run while it lasts. */
interface Mix {
  readonly task: Task;
  readonly options: MixOptions;
  readonly context: ProtocolContext;
  readonly round: Round;
  voices: readonly Voice[];
  readonly ids: number[];
  /** The slots in which the last token was given its likelihood. */
  reads: readonly string[];
}

function tokenCall(
  { task, reads }: Pick<Mix, 'task' | 'reads'>,
  member: Member,
  slot: string,
  purpose: Purpose,
  tokens: TokenQuestion,
): Call {
  const call = callOf(task, member, {
    slot: `${slot}/${member.alias}`,
    purpose,
    messages: task.messages,
    reads,
    canReachClient: false,
  });
  return { ...call, sampling: { temperature: 0, max_tokens: 1 }, tokens };
}

const topOf = ({ capabilities }: Member, top: number) => Math.min(top, capabilities.logprobs ?? top);

/** Renders the prompt for each member, and makes sure that their tokens mean the same. */
async function open(mix: Mix, team: readonly Member[]): Promise<Contribution[]> {
  const { options, context, round } = mix;
  const calls = team.flatMap((member) => [
    tokenCall(mix, member, 'token-1', 'continue', { top: topOf(member, options.top) }),
    tokenCall(mix, member, 'vocabulary', 'inform', { prompt: PROBE, top: 0 }),
  ]);
  const heard = await askAll(calls, context);
  round.absences.push(...heard.absences);
  const of = (member: Member) => heard.contributions.filter((one) => one.member === member);
  const present = team.flatMap((member) => {
    const [first, vocabulary] = of(member);
    return first && vocabulary ? [{ first, vocabulary }] : [];
  });
  const vocabularies = present.map(({ vocabulary }) => idsOf(vocabulary).join());
  if (new Set(vocabularies).size > 1) {
    const names = present.map(({ first }) => first.member.alias).join(', ');
    throw new ConsortError('vocabularies_differ', [options.name, names]);
  }
  mix.voices = present.map(({ first }) => ({ member: first.member, prompt: idsOf(first) }));
  return present.map(({ first }) => first);
}

function idsOf({ member, answer }: Contribution): readonly number[] {
  if (answer.promptTokenIds) return answer.promptTokenIds;
  throw new ConsortError('upstream_malformed', [member.alias, 'no prompt_token_ids']);
}

/** Asks all voices about the next token; whoever fails is one no longer. */
async function ask(mix: Mix, calls: readonly Call[]): Promise<Contribution[]> {
  const { contributions, absences } = await askAll(calls, mix.context);
  mix.round.absences.push(...absences);
  mix.voices = mix.voices.filter(({ member }) => !absences.some((absence) => absence.member === member));
  return contributions;
}

function stepOf({ member, answer }: Contribution) {
  const [step] = answer.steps ?? [];
  if (!step) throw new ConsortError('upstream_malformed', [member.alias, 'no token']);
  return step;
}

/** What each voice thinks of the candidates: of those that are missing among its likeliest, too, where it can tell. */
async function valuesOf(mix: Mix, heard: readonly Contribution[], at: number) {
  const { mixture } = mix.options;
  const values = heard.map((one): Values => {
    const { others } = stepOf(one);
    return { alias: one.member.alias, known: others, floor: floorOf(others) };
  });
  const candidates = mixture.candidates(values);
  const calls = mix.voices.flatMap(({ member, prompt }, index) => {
    const ids = [...candidates].filter((id) => !values[index]?.known.has(id));
    if (ids.length === 0 || !member.capabilities.tokenLogprobs) return [];
    const tokens = { prompt: [...prompt, ...mix.ids], top: 0, ids };
    return [tokenCall(mix, member, `values-${at}`, 'continue', tokens)];
  });
  const told = new Map((await ask(mix, calls)).map((one) => [one.member.alias, stepOf(one).others]));
  // Whoever fails now has still said what it finds likeliest here.
  const whole = values.map((one) => ({
    ...one,
    known: new Map([...one.known, ...(told.get(one.alias) ?? [])]),
  }));
  return { values: whole, candidates };
}

/** What the token says: from a voice whose own choice it was, or from one that may choose nothing else. */
async function spell(
  mix: Mix,
  heard: readonly Contribution[],
  id: number,
  at: number,
): Promise<Drawn | undefined> {
  const own = heard.filter((one) => stepOf(one).id === id);
  for (const { answer } of own) return { id, ...wordsOf(answer) };
  for (const { member, prompt } of mix.voices) {
    if (mix.context.left().calls === 0) break;
    const tokens = { prompt: [...prompt, ...mix.ids], top: 0, only: id };
    const [told] = await ask(mix, [tokenCall(mix, member, `word-${at}`, 'continue', tokens)]);
    if (!told) continue;
    if (stepOf(told).id === id) return { id, ...wordsOf(told.answer) };
    throw new ConsortError('upstream_malformed', [
      member.alias,
      'another token than the one that was allowed',
    ]);
  }
  return undefined;
}

function wordsOf({ message, finishReason }: Answer): Pick<Drawn, 'text' | 'isEnd'> {
  return { text: message.text, isEnd: finishReason !== 'length' };
}

/** The next token; undefined when no voice is left that could say it. */
async function next(mix: Mix, opening: readonly Contribution[]): Promise<Drawn | undefined> {
  const { options, task, context } = mix;
  const at = mix.ids.length + 1;
  const heard =
    at === 1
      ? opening
      : await ask(
          mix,
          mix.voices.map(({ member, prompt }) => {
            const tokens = { prompt: [...prompt, ...mix.ids], top: topOf(member, options.top) };
            return tokenCall(mix, member, `token-${at}`, 'continue', tokens);
          }),
        );
  const { values, candidates } = await valuesOf(mix, heard, at);
  mix.reads = heard.map(({ slot }) => slot);
  if (values.length === 0) return undefined;
  const id = draw(options.mixture.score(values, candidates), task.sampling, context.random(`token/${at}`));
  return spell(mix, heard, id, at);
}

/** Whether nobody is left because time or money is, and not because all have failed. */
function isSpent({ absences }: Round): boolean {
  return absences.some(
    ({ absence: { error } }) => error.code === 'deadline' || error.code === 'budget_spent',
  );
}

export async function* mixTokens(
  task: Task,
  team: readonly Member[],
  options: MixOptions,
  context: ProtocolContext,
): AsyncGenerator<Part, Answer> {
  refuseForm(task, options.name);
  const round = new Round();
  const mix: Mix = { task, options, context, round, voices: [], ids: [], reads: [] };
  const opening = await open(mix, team);
  if (mix.voices.length < 2)
    return yield* answerAlone(
      task,
      mix.voices.map(({ member }) => member),
      context,
      round,
    );
  const text = new GrowingText(task.sampling);
  const slot = opening[0]?.slot ?? '';
  const limit = tokenLimit(task.sampling, options.maxTokens);
  const from = new Set<string>();
  let reason: 'stop' | 'length' = 'length';
  while (mix.ids.length < limit && reason === 'length') {
    if (mix.ids.length > 0 && context.left().calls < mix.voices.length) break;
    const token = await next(mix, opening);
    if (!token && (mix.ids.length === 0 || !isSpent(round))) throw round.failure();
    if (!token) break;
    for (const { member } of mix.voices) from.add(member.alias);
    mix.ids.push(token.id);
    if (token.isEnd) reason = 'stop';
    else yield* say(slot, text.add(token.text));
    if (text.isStopped) reason = 'stop';
  }
  const usage = { inputTokens: opening[0]?.answer.usage.inputTokens ?? 0, outputTokens: mix.ids.length };
  return yield* endText(text, { slot, reason, from: [...from], usage });
}
