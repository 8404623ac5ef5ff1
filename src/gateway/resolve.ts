/** Decides: a model name and a request's extension become a plan and a task. Text of the user is never read. */
import { createHash } from 'node:crypto';
import type { NewId, Resumption } from '../contract/capabilities.ts';
import type { ChatRequest, RequestExtension } from '../contract/chat.ts';
import { ConsortError } from '../contract/errors.ts';
import { teamOf, type Budget, type Plan } from '../contract/plan.ts';
import type { Task } from '../contract/task.ts';
import type { Turn } from '../contract/turn.ts';
import {
  checkNeeds,
  makeSystem,
  optionsFor,
  protocolRevisionOf,
  SYSTEM_PREFIX,
  type Catalog,
  type System,
} from './catalog.ts';
import { mergedFor } from './merges.ts';
import type { Protocol } from './protocols/protocol.ts';
import { checkFields, taskOf } from './request-task.ts';
import { resumptionOf, type Recalled } from './tool-turns.ts';

/** Who asks. Without auth everyone is `anonymous` and may everything. */
export interface Caller {
  readonly tenant: string;
  readonly mayUse: (model: string) => boolean;
  readonly mayScore: boolean;
}

export interface ResolveParts {
  readonly catalog: Catalog;
  readonly protocols: readonly Protocol[];
  readonly verifiers: readonly string[];
  readonly inlinePlans: boolean;
  readonly maxStreamMs: number;
  readonly newId: NewId;
}

export interface Resolved {
  readonly system: System;
  /** One for each choice that the client asked for: replicates of the first, with ids of their own. */
  readonly plans: readonly [Plan, ...Plan[]];
  readonly task: Task;
  /** Where an earlier run goes on with the results of its tools. */
  readonly resume?: Resumption;
}

/** The parts of a resolver that outlives generations: each request is decided by the one that is current then. */
export type ResolverParts = Omit<ResolveParts, 'catalog'> & { readonly catalog: () => Catalog };

/** @param recalled what is known of the turn before, when the request brings results of tools */
export type Resolve = (body: ChatRequest, caller: Caller, recalled?: Recalled) => Resolved;

export function createResolver(lasting: ResolverParts): Resolve {
  // What requests without choices of their own get is made once: the store keeps the same values once, too.
  const frames = new WeakMap<System, PlanFrame>();
  const commonFrame = (parts: ResolveParts, system: System) => {
    let frame = frames.get(system);
    if (!frame) frames.set(system, (frame = frameOf(parts, system, {})));
    return frame;
  };
  return (body, caller, recalled) => {
    const parts = { ...lasting, catalog: lasting.catalog() };
    const system = findSystem(parts, body.model, caller);
    const extension = body.consort ?? {};
    checkExtension(parts, system, extension, caller);
    const id = parts.newId();
    // One seed for all calls would make a member's samples equal, so a team's seed is the plan's.
    const seed = String(extension.seed ?? (system.plain ? undefined : body.seed) ?? '');
    const instance =
      seed === ''
        ? id
        : createHash('sha256')
            .update(JSON.stringify([caller.tenant, system.id, seed, body.messages]))
            .digest('hex')
            .slice(0, 32);
    const turn = recalled?.turn;
    const resumed = turn && resumedFrame(parts, system, turn, extension);
    const frame = resumed ?? (body.consort ? frameOf(parts, system, extension) : commonFrame(parts, system));
    const identity = { id, seed, promptInstance: instance, tenant: caller.tenant };
    const cluster = extension.cluster ?? (resumed ? turn?.cluster : undefined) ?? instance;
    const resumes = recalled && { resumes: resumed && turn ? turn.outcome : null };
    const plan = { ...frame, ...identity, cluster, asked: body.model, ...resumes };
    if (!system.plain) checkFields(system, teamOf(plan), body);
    const more = Array.from({ length: system.plain ? 0 : (body.n ?? 1) - 1 }, (_, index) => {
      return { ...plan, id: parts.newId(), replicate: index + 1 };
    });
    const task = taskOf(system, body, extension);
    const resume = resumed && turn && { resume: resumptionOf(turn, body.messages) };
    return { system, plans: [plan, ...more], task, ...resume };
  };
}

function findSystem(parts: ResolveParts, name: string, caller: Caller): System {
  const known = parts.catalog.systems.get(name);
  const system = known ?? (parts.inlinePlans ? inlineSystem(parts, name) : undefined);
  if (!system) throw new ConsortError('model_not_found', [name], { param: 'model' });
  // Whoever names the members of a plan must be allowed each of them.
  const names = known ? [name] : [name, ...system.pool.members.map(({ alias }) => alias)];
  const forbidden = names.find((one) => !caller.mayUse(one));
  if (forbidden !== undefined) throw new ConsortError('key_forbidden', [caller.tenant, `use ${forbidden}`]);
  return system;
}

/** `consort/<protocol>:<alias>+<alias>`: a plan in the model's name, where the operator allows it. */
function inlineSystem({ catalog, protocols }: ResolveParts, name: string): System | undefined {
  if (!name.startsWith(SYSTEM_PREFIX)) return undefined;
  const [protocolName, aliases] = name.slice(SYSTEM_PREFIX.length).split(':');
  const protocol = protocols.find((candidate) => candidate.name === protocolName);
  const models = aliases?.split('+').map((alias) => catalog.models.get(alias)) ?? [];
  if (!protocol || models.length === 0 || models.length > 20) return undefined;
  const present = models.filter((model) => model !== undefined);
  if (present.length < models.length || new Set(present).size < present.length) return undefined;
  const config = {
    budget: { calls: 64, deadlineMs: 120_000 },
    overrides: ['coalition', 'options', 'budget', 'seed', 'trace'] as const,
    tools: 'speaker' as const,
  };
  const id = name.slice(SYSTEM_PREFIX.length);
  const limits = { ...config, overrides: [...config.overrides] };
  const pool = { id: `~${aliases}`, models: present };
  return makeSystem({ id, plain: false, config: limits }, protocol, {}, pool);
}

function checkExtension(
  { verifiers }: ResolveParts,
  system: System,
  extension: RequestExtension,
  caller: Caller,
): void {
  const allowed: readonly string[] = system.config.overrides;
  for (const field of ['coalition', 'options', 'budget', 'seed', 'trace'] as const) {
    if (extension[field] !== undefined && !allowed.includes(field)) {
      throw new ConsortError('override_forbidden', [system.id, field], { param: `consort.${field}` });
    }
  }
  for (const field of ['gold', 'verifier', 'params', 'design'] as const) {
    if (extension[field] !== undefined && !caller.mayScore) {
      throw new ConsortError('key_forbidden', [caller.tenant, `send consort.${field}`]);
    }
  }
  if (extension.design !== undefined && extension.seed === undefined) {
    const wrong = 'consort.design joins runs of one prompt by their seed, and there is none';
    throw new ConsortError('invalid_request', ['consort.seed', wrong], { param: 'consort.seed' });
  }
  if (extension.verifier !== undefined && !verifiers.includes(extension.verifier)) {
    throw new ConsortError('verifier_unknown', [extension.verifier, verifiers.join(', ')], {
      param: 'consort.verifier',
    });
  }
}

/** Names and numbers of one run that do not come from the system. */
export interface Identity {
  readonly id: string;
  readonly seed: string;
  readonly promptInstance: string;
  readonly tenant: string;
}

/** Fields of a plan that a request, a sweep or a design may set. */
export type PlanChoices = Pick<RequestExtension, 'coalition' | 'options' | 'budget' | 'design' | 'cluster'>;

type PlanParts = Pick<ResolveParts, 'catalog' | 'maxStreamMs'>;

/** A plan of a system for one coalition of its pool. */
export function planOf(parts: PlanParts, system: System, choices: PlanChoices, identity: Identity): Plan {
  const frame = frameOf(parts, system, choices);
  return { ...frame, ...identity, cluster: choices.cluster ?? identity.promptInstance };
}

/** A plan before it has names. */
type PlanFrame = Omit<Plan, keyof Identity | 'cluster'>;

function frameOf(parts: PlanParts, system: System, choices: PlanChoices): PlanFrame {
  const { mask, members } = coalitionOf(system, choices.coalition);
  const merged = mergedFor(system, mask);
  const team = teamOf({ members, ...(merged && { merged }) });
  const options = choices.options
    ? optionsFor(
        system.protocol,
        { ...system.options, ...choices.options },
        system.pool.members.map(({ alias }) => alias),
      )
    : system.options;
  checkNeeds(system.protocol, options, team);
  const budget = budgetOf(system, choices.budget, parts.maxStreamMs);
  const shape = system.protocol.describe(options, team.length);
  if (shape.calls > budget.calls) {
    throw new ConsortError('budget_too_small', [budget.calls, shape.calls], {
      param: 'consort.budget.calls',
    });
  }
  return {
    v: 1,
    asked: `${SYSTEM_PREFIX}${system.id}`,
    system: system.id,
    protocol: { name: system.protocol.name, version: system.protocol.version },
    protocolRevision: choices.options
      ? protocolRevisionOf(system.protocol, options, system.pool.members)
      : system.protocolRevision,
    pool: { id: system.pool.id, revision: system.pool.revision, size: system.pool.members.length },
    members,
    ...(merged && { merged }),
    mask,
    options,
    budget,
    replicate: 0,
    choice: {
      source: choices.design ? 'design' : choices.coalition ? 'client' : 'config',
      propensity: choices.coalition && !choices.design ? null : 1,
    },
    design: choices.design ?? 'live',
    configHash: parts.catalog.configHash,
    simulated: system.simulated,
  };
}

/**
 * The frame of a run that goes on: the coalition and options of the turn before. Undefined when that run would not be
 * made any more: the system has changed, or the request wants another coalition or other options.
 */
function resumedFrame(
  parts: PlanParts,
  system: System,
  turn: Turn,
  extension: RequestExtension,
): PlanFrame | undefined {
  const { coalition, options, choice, protocolRevision } = turn;
  if (!coalition.every((alias) => system.pool.members.some((member) => member.alias === alias)))
    return undefined;
  const frame = frameOf(parts, system, { coalition, options, ...extension });
  const isSame =
    frame.protocolRevision === protocolRevision &&
    frame.members.map(({ alias }) => alias).join() === coalition.join();
  return isSame ? { ...frame, choice } : undefined;
}

function coalitionOf(system: System, coalition: readonly string[] | undefined) {
  const all = system.pool.members;
  if (!coalition) return { mask: 2 ** all.length - 1, members: [...all] };
  for (const alias of coalition) {
    if (!all.some((member) => member.alias === alias)) {
      const known = all.map((member) => member.alias).join(', ');
      const more = { param: 'consort.coalition' };
      throw new ConsortError('coalition_invalid', [alias, system.pool.id, known], more);
    }
  }
  const members = all.filter(({ alias }) => coalition.includes(alias));
  const mask = members.reduce((sum, member) => sum + 2 ** all.indexOf(member), 0);
  return { mask, members };
}

/** The system's limits, lowered by the request: never raised. */
function budgetOf(system: System, asked: RequestExtension['budget'], maxStreamMs: number): Budget {
  const { calls, deadlineMs, costUsd } = system.config.budget;
  const limits = [costUsd, asked?.costUsd].filter((usd) => usd !== undefined);
  return {
    calls: Math.min(calls, asked?.calls ?? calls),
    deadlineMs: Math.min(deadlineMs, maxStreamMs, asked?.deadlineMs ?? deadlineMs),
    costMicros: limits.length === 0 ? null : Math.round(Math.min(...limits) * 1e6),
  };
}
