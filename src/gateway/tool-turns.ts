/**
 * Conversations with tools: when a member of a team has called tools, what its next turn needs is kept in the store under
 * the ids of the calls, so that any replica can let the same run go on. A store that is slow, down or forgetful never
 * fails a request: then the protocol runs anew on the whole conversation, and the plan says so.
 */
import { createHash } from 'node:crypto';
import { Compile } from 'typebox/compile';
import type { Call } from '../contract/call.ts';
import type { Resumption, RunResult } from '../contract/capabilities.ts';
import type { ChatMessage, ChatRequest } from '../contract/chat.ts';
import type { Turns } from '../contract/store.ts';
import { Turn } from '../contract/turn.ts';
import { inTime } from './in-time.ts';

/** An agent's tools may wait for a person. */
const KEPT_MS = 3_600_000;
const MOST_KEPT = 10_000;
const MOST_BYTES = 131_072;

const turnCheck = Compile(Turn);

export type TurnResult = 'kept' | 'too_large' | 'not_kept' | 'found' | 'unknown' | 'not_found';

export interface ToolTurnsParts {
  readonly store: Turns;
  readonly onTurn: (result: TurnResult) => void;
}

/** What is known of the turn before a request that brings results of tools. */
export interface Recalled {
  readonly turn: Turn | null;
}

/** The call's prompt by the conversation that its run was given, and what else its next turn needs. */
export function turnOf(messages: readonly ChatMessage[], call: Call, { outcome, answer }: RunResult): Turn {
  const { plan } = outcome;
  const prompt = call.messages;
  const most = Math.min(prompt.length, messages.length);
  let before = 0;
  while (before < most && prompt[before] === messages[before]) before++;
  let kept = 0;
  while (kept < most - before && prompt.at(-1 - kept) === messages.at(-1 - kept)) kept++;
  return {
    v: 1,
    outcome: outcome.id,
    coalition: plan.members.map(({ alias }) => alias),
    choice: plan.choice,
    options: plan.options,
    protocolRevision: plan.protocolRevision,
    cluster: plan.cluster,
    from: [...(answer?.from ?? [])],
    member: call.member.alias,
    before,
    between: prompt.slice(before, prompt.length - kept),
    after: messages.length - kept,
  };
}

/** @param messages the conversation as it is now: that of the turn, the calls and their results */
export function resumptionOf(turn: Turn, messages: readonly ChatMessage[]): Resumption {
  const { member, from, before, between, after } = turn;
  return { member, from, messages: [...messages.slice(0, before), ...between, ...messages.slice(after)] };
}

export class ToolTurns {
  readonly #parts: ToolTurnsParts;

  constructor(parts: ToolTurnsParts) {
    this.#parts = parts;
  }

  /** Undefined when the request brings no results of tools. */
  async recall(tenant: string, { model, messages }: ChatRequest): Promise<Recalled | undefined> {
    const calling = messages.findLastIndex(({ role }) => role !== 'tool');
    const ids = messages[calling]?.tool_calls?.map(({ id }) => id);
    if (calling === messages.length - 1 || !ids) return undefined;
    const { store, onTurn } = this.#parts;
    try {
      const text = await inTime(store.find(nameOf(tenant, model, messages.slice(0, calling), ids)));
      const turn: unknown = text === undefined ? undefined : JSON.parse(text);
      const isKnown = turnCheck.Check(turn);
      onTurn(isKnown ? 'found' : 'unknown');
      return { turn: isKnown ? turn : null };
    } catch {
      onTurn('not_found');
      return { turn: null };
    }
  }

  /** Keeps what the next turn needs, if the run called tools. Never rejects. */
  async keep(messages: readonly ChatMessage[], result: RunResult): Promise<void> {
    const { answer, toolCall, outcome, error } = result;
    const ids = answer?.message.toolCalls?.map(({ id }) => id) ?? [];
    if (!toolCall || error || ids.length === 0) return;
    const { store, onTurn } = this.#parts;
    const text = JSON.stringify(turnOf(messages, toolCall, result));
    if (Buffer.byteLength(text) > MOST_BYTES) return onTurn('too_large');
    const name = nameOf(outcome.plan.tenant, outcome.plan.asked, messages, ids);
    try {
      await inTime(store.keep(name, text, KEPT_MS, MOST_KEPT));
      onTurn('kept');
    } catch {
      onTurn('not_kept');
    }
  }
}

/** Whoever asks must be the same and must show the same conversation, so nothing else needs a check. */
function nameOf(
  tenant: string,
  model: string,
  messages: readonly ChatMessage[],
  ids: readonly string[],
): string {
  return createHash('sha256')
    .update(JSON.stringify([tenant, model, ids, messages]))
    .digest('hex');
}
