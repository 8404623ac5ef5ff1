/**
 * Writes the training prompts as JSON lines: `node render-prompts.ts FILE [--rows N] [--seed N] [--protocols]`. Half of
 * them are bare questions; the others are a quarter the product's fuse calls and a quarter its later debate rounds, or,
 * with `--protocols`, calls of all protocols, their label steps too.
 */
import { createWriteStream } from 'node:fs';
import { once } from 'node:events';
import { finished } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { practiceOf } from './protocol-prompts.ts';
import { ask, isHeldOut, kinds, mistake, seededDraw, type Question } from './task-kinds.ts';
import { debateMessages, fuseMessages } from './team-prompts.ts';
import type { ChatMessage } from '../../src/contract/chat.ts';

/** How a member leads in to its answer; the empty one is that of the policy, the base and its two children. */
const leads = ['', 'Sure. ', 'Okay. ', 'Hm. '];

/** Peers are right at one rate on every kind, so that no model is taught beforehand whom to trust. */
const peersRight = 0.6;

interface Row {
  kind: string;
  /** To a `label` the answer is the whole reply; `words` are calls of any protocol. */
  shape: 'solo' | 'fuse' | 'debate' | 'words' | 'label';
  messages: readonly ChatMessage[];
  gold: string;
  /** What one says who does not know: what most voices in the prompt say; with none, the answer to another question. */
  guess: string;
  /** What the answers in the prompt say, the model's own previous one not included. */
  peers: string[];
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    rows: { type: 'string', default: '160000' },
    seed: { type: 'string', default: '1' },
    protocols: { type: 'boolean', default: false },
  },
});
const [path] = positionals;
if (path === undefined)
  throw new Error('usage: node render-prompts.ts FILE [--rows N] [--seed N] [--protocols]');

const draw = seededDraw(Number(values.seed));
const chance = (): number => draw(2 ** 30) / 2 ** 30;
const out = createWriteStream(path);
for (let index = 0; index < Number(values.rows); index += 1) {
  if (!out.write(`${JSON.stringify(await row(index))}\n`)) await once(out, 'drain');
}
out.end();
await finished(out);

async function row(index: number): Promise<Row> {
  const question = trainingQuestion();
  const { kind, prompt, gold } = question;
  if (index % 2 === 0) {
    const guess = ask(kind, draw).gold;
    return { kind, shape: 'solo', messages: [{ role: 'user', content: prompt }], gold, guess, peers: [] };
  }
  if (values.protocols) return practiceRow(question);
  const peers = Array.from({ length: 1 + draw(4) }, () => opinion(question));
  const texts = peers.map(reply);
  if (index % 4 === 1) {
    const messages = await fuseMessages(prompt, texts, chance);
    return { kind, shape: 'fuse', messages, gold, guess: mostCommon(peers), peers };
  }
  const own = opinion(question);
  const messages = await debateMessages(prompt, reply(own), texts, chance);
  return { kind, shape: 'debate', messages, gold, guess: mostCommon([own, ...peers]), peers };
}

async function practiceRow(question: Question): Promise<Row> {
  const { messages, isLabel, gold, guess } = await practiceOf(question, {
    draw,
    chance,
    mostCommon,
    reply: () => reply(opinion(question)),
    blindGuess: () => ask(question.kind, draw).gold,
  });
  const shape = isLabel ? 'label' : 'words';
  return { kind: question.kind, shape, messages, gold, guess, peers: [] };
}

function trainingQuestion(): Question {
  for (;;) {
    const question = ask(kinds[draw(kinds.length)] ?? 'add', draw);
    if (!isHeldOut(question)) return question;
  }
}

function opinion(question: Question): string {
  return chance() < peersRight ? question.gold : mistake(question, draw);
}

function reply(answer: string): string {
  return `${leads[draw(leads.length)] ?? ''}The answer is ${answer}.`;
}

function mostCommon(voices: readonly string[]): string {
  const counts = [...Map.groupBy(voices, (voice) => voice).entries()];
  const most = Math.max(...counts.map(([, group]) => group.length));
  const tied = counts.filter(([, group]) => group.length === most);
  return tied[draw(tied.length)]?.[0] ?? '';
}
