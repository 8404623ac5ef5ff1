/**
 * What a simulated model believes. First answers are right by a one-factor Gaussian copula (errors correlate);
 * after reading peers a wrong model becomes right with probability up × (share of peers right), a right one wrong
 * with probability down × (share of peers wrong). Peers' answers are read out of the prompt by the product's own
 * extractor, so a broken prompt template shows as a biased mean.
 */
import { textOf, type ChatMessage } from '../../../contract/chat.ts';
import { canonical, extractAnswer } from '../../../scoring/rewards/extract.ts';
import { normalQuantile } from '../../../scoring/statistics/special-functions.ts';
import { normal, uniform } from './chance.ts';
import { KINDS, type SimModel } from './pool.ts';
import { readSimTask, type SimTask } from './tasks.ts';

export interface Thought {
  readonly task: SimTask;
  readonly answer: string;
}

const MARK = /between the marks (\[[a-z]+\])/;

/** What the model answers to this conversation, or undefined when no simulated task is in it. */
export function think(
  model: SimModel,
  messages: readonly ChatMessage[],
  sample: number,
): Thought | undefined {
  const task = taskIn(messages);
  if (!task) return undefined;
  const own = messages.findLast(({ role }) => role === 'assistant');
  const before = own ? readAnswer(textOf(own)) === task.gold : firstIsRight(model, task, sample);
  const peers = peerAnswers(textOf(messages.at(-1)!));
  // Draws after reading depend on all that was read: each round of a debate has its own.
  const read = peers.length === 0 ? '' : messages.map(textOf).join('\0');
  const right = peers.length === 0 ? before : persuaded(model, task, before, peers, [read, sample]);
  return { task, answer: right ? task.gold : wrongAnswer(model, task, [read, sample]) };
}

/**
 * The label that the model gives to a label step. Where labels number the answers that it is shown, it names one that
 * agrees with its own; anything else, and what it cannot answer, is chance.
 */
export function chooseLabel(
  model: SimModel,
  messages: readonly ChatMessage[],
  sample: number,
  labels: readonly string[],
): string {
  const task = taskIn(messages);
  const answers = peerAnswers(textOf(messages.at(-1)!));
  const isRight = task && firstIsRight(model, task, sample);
  const own = task && (isRight ? task.gold : wrongAnswer(model, task, ['', sample]));
  const agreeing = labels.filter((_label, index) => own !== undefined && answers[index] === own);
  const open = agreeing.length > 0 && answers.length === labels.length ? agreeing : labels;
  const draw = uniform('label', model.name, sample, ...messages.map(textOf));
  return open[Math.floor(draw * open.length)]!;
}

function taskIn(messages: readonly ChatMessage[]): SimTask | undefined {
  return readSimTask(messages.map((message) => (message.role === 'user' ? textOf(message) : '')).join('\n'));
}

type Key = readonly (string | number)[];

function firstIsRight(model: SimModel, task: SimTask, sample: number): boolean {
  const { rho } = KINDS[task.kind];
  const shared = normal('z', task.kind, task.seed);
  const own = normal('e', task.kind, task.seed, model.name, sample);
  return normalQuantile(model.skill[task.kind]) > Math.sqrt(rho) * shared + Math.sqrt(1 - rho) * own;
}

function persuaded(
  model: SimModel,
  task: SimTask,
  before: boolean,
  peers: readonly (string | undefined)[],
  key: Key,
): boolean {
  const share = peers.filter((answer) => answer === task.gold).length / peers.length;
  const draw = uniform('persuade', task.kind, task.seed, model.name, ...key);
  return before ? draw >= model.persuadeDown * (1 - share) : draw < model.persuadeUp * share;
}

function wrongAnswer(model: SimModel, task: SimTask, key: Key): string {
  const isShared = uniform('misconception', task.kind, task.seed) < KINDS[task.kind].misconception;
  const whose = isShared ? ['shared'] : [model.name, ...key];
  return task.wrong[Math.floor(uniform('wrong', task.kind, task.seed, ...whose) * task.wrong.length)]!;
}

function readAnswer(text: string): string | undefined {
  const extracted = extractAnswer(text);
  return extracted && canonical(extracted.answer);
}

function peerAnswers(text: string): (string | undefined)[] {
  const mark = MARK.exec(text)?.[1];
  if (!mark) return [];
  const sections = text.slice(text.indexOf(mark) + mark.length).split(`\n${mark}`);
  // Before the first mark stands the introduction, after the last the instruction.
  return sections.slice(1, -1).map((section) => readAnswer(section.replace(/^ \d+\n/, '')));
}
