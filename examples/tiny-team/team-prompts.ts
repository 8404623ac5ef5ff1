/**
 * The prompts that members of a team see, taken from the product itself: its protocols run on canned answers, and
 * the call in question is caught on its way out. So training prompts cannot drift from what is sent in use.
 */
import type { Call } from '../../src/contract/call.ts';
import type { ChatMessage } from '../../src/contract/chat.ts';
import { debate } from '../../src/gateway/protocols/debate.ts';
import { fuse } from '../../src/gateway/protocols/fuse.ts';
import type { Options, Protocol } from '../../src/gateway/protocols/protocol.ts';
import { callsOf, memberOf, type Chance } from './team-run.ts';

/** What the fuser reads when the others drafted `answers`. */
export function fuseMessages(
  prompt: string,
  answers: readonly string[],
  chance: Chance,
): Promise<readonly ChatMessage[]> {
  return caught(fuse, { fusers: [], fuserDrafts: false }, 'fuse', prompt, ['', ...answers], chance);
}

/** What a member reads in a later round when it said `own` and the others `answers`. */
export function debateMessages(
  prompt: string,
  own: string,
  answers: readonly string[],
  chance: Chance,
): Promise<readonly ChatMessage[]> {
  return caught(debate, { rounds: 2, ties: 'priority' }, 'revise', prompt, [own, ...answers], chance);
}

/** The first member's call for `purpose`, when the members first say `texts`. */
async function caught(
  protocol: Protocol,
  options: Options,
  purpose: Call['purpose'],
  prompt: string,
  texts: readonly string[],
  chance: Chance,
): Promise<readonly ChatMessage[]> {
  const team = texts.map((_, seat) => memberOf(seat));
  const say = ({ member }: Call): string => texts[team.indexOf(member)] ?? '';
  const calls = await callsOf(protocol, options, prompt, { team, chance, say });
  const call = calls.find((each) => each.purpose === purpose && each.member === team[0]);
  if (!call) throw new Error(`${protocol.name} made no call to ${purpose}`);
  return call.messages;
}
