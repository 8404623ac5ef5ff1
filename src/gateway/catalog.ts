/** What can be asked for: models, and systems made of a pool and a protocol. Built once from a configuration. */
import { createHash } from 'node:crypto';
import Value from 'typebox/value';
import type { Config, ModelConfig, PoolConfig, SystemConfig } from '../contract/config.ts';
import { ConsortError } from '../contract/errors.ts';
import type { MergeMethod } from '../contract/merge.ts';
import type { Member } from '../contract/plan.ts';
import { strangerIn } from './protocols/member-options.ts';
import type { Options, Protocol } from './protocols/protocol.ts';
import { dialectOf } from './upstreams/fleet.ts';

/** The models that stand for the coalitions of a pool, by mask. */
export interface Merges {
  readonly method: MergeMethod;
  readonly byMask: ReadonlyMap<number, Member>;
}

export interface System {
  readonly id: string;
  /** Set when the system is a plain model behind its alias: then bytes pass through. */
  readonly plain: boolean;
  readonly protocol: Protocol;
  readonly options: Options;
  readonly protocolRevision: string;
  readonly pool: {
    readonly id: string;
    readonly revision: string;
    readonly members: readonly Member[];
    /** Set where coalitions of two or more run as one model. */
    readonly merges?: Merges;
  };
  readonly config: Pick<SystemConfig, 'budget' | 'overrides' | 'reward' | 'tools'>;
  readonly simulated: boolean;
}

export interface Catalog {
  /** By the name that clients ask for: an alias, or `consort/<system>`. */
  readonly systems: ReadonlyMap<string, System>;
  readonly models: ReadonlyMap<string, ModelConfig>;
  readonly configHash: string;
}

export const SYSTEM_PREFIX = 'consort/';

/** Twelve hex digits are enough to tell revisions apart, and short enough for keys. */
export function revisionOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 12);
}

export function memberOf(model: ModelConfig): Member {
  const { id, provider, price, capabilities, description } = model;
  const name = model.model ?? id;
  return {
    alias: id,
    model: name,
    upstream: id,
    provider,
    revision: revisionOf([provider, name, model.baseUrl ?? '', model.revision]),
    price: {
      inputMicros: Math.round((price?.inputUsdPerMTok ?? 0) * 1e6),
      outputMicros: Math.round((price?.outputUsdPerMTok ?? 0) * 1e6),
    },
    capabilities: capabilities ?? {},
    ...(description !== undefined && { description }),
  };
}

/**
 * The options of a protocol with defaults filled in.
 *
 * @param aliases of the pool: then every member that the options name must be one of them
 * @throws `option_invalid` naming the option, the value and what is expected
 */
export function optionsFor(protocol: Protocol, given: Options, aliases?: readonly string[]): Options {
  const options: unknown = Value.Default(protocol.options, structuredClone(given));
  // Not compiled: a compiler run for each request with options would cost more than it saves.
  if (Value.Check(protocol.options, options)) {
    if (aliases) checkNames(protocol, options, aliases);
    const problem = protocol.problem?.(options);
    if (!problem) return options;
    const { option, wrong } = problem;
    const value = JSON.stringify((options as Options)[option]);
    const more = { param: `consort.options.${option}` };
    throw new ConsortError('option_invalid', [option, protocol.name, `${value} ${wrong}`], more);
  }
  const [error] = Value.Errors(protocol.options, options);
  const name = error?.instancePath.slice(1) ?? '';
  const value = JSON.stringify(given[name.split('/')[0] ?? '']);
  const known = Object.keys(protocol.options.properties).join(', ') || 'none';
  const wrong = `${value ?? 'it'} ${ruleOf(error)}; the options are ${known}`;
  throw new ConsortError('option_invalid', [name, protocol.name, wrong], {
    param: `consort.options.${name}`,
  });
}

function checkNames(protocol: Protocol, options: unknown, aliases: readonly string[]): void {
  const stranger = strangerIn(protocol.options, options, aliases);
  if (!stranger) return;
  const name = stranger.path.join('/');
  const wrong = `${JSON.stringify(stranger.alias)} is no member of the pool, which has ${aliases.join(', ')}`;
  throw new ConsortError('option_invalid', [name, protocol.name, wrong], {
    param: `consort.options.${stranger.path[0] ?? ''}`,
  });
}

/** @throws `capability_missing` naming the protocol, the capability and the member */
export function checkNeeds(protocol: Protocol, options: Options, members: readonly Member[]): void {
  if (members.length < 2) return;
  for (const need of protocol.needs?.(options) ?? []) {
    const lacking = members.find(({ capabilities }) => !capabilities[need]);
    if (lacking) throw new ConsortError('capability_missing', [protocol.name, need, lacking.alias]);
  }
}

function ruleOf(error: { keyword: string; message: string } | undefined): string {
  if (error?.keyword === 'boolean') return 'is not a known option';
  return error?.message ?? 'is not valid';
}

/** @param members the pool: what the operator says of them and their prices count where prompts hold them */
export function protocolRevisionOf(protocol: Protocol, options: Options, members: readonly Member[]): string {
  const { name, version, showsDescriptions, showsPrices } = protocol;
  const shown = members.map(({ alias, description }) => [alias, description]);
  const prices = members.map(({ price }) => price);
  return revisionOf([
    name,
    version,
    options,
    ...(showsDescriptions ? [shown] : []),
    ...(showsPrices?.(options) ? [prices] : []),
  ]);
}

/** For a system that does not let it call tools, or not all of its parents, a member is one that cannot. */
function memberIn({ tools: callers }: SystemTraits['config'], model: ModelConfig): Member {
  const member = memberOf(model);
  const named = model.merged?.parents ?? [member.alias];
  if (callers === 'speaker' || named.every((alias) => callers.includes(alias))) return member;
  return { ...member, capabilities: { ...member.capabilities, tools: false } };
}

/** The names and limits of a system besides what its pool and protocol say. */
export type SystemTraits = Pick<System, 'id' | 'plain' | 'config'>;

/** A pool with its members looked up, and with those that were merged from them where it runs these. */
export interface PoolParts {
  readonly id: string;
  readonly models: readonly ModelConfig[];
  readonly merged?: { readonly method: MergeMethod; readonly models: readonly ModelConfig[] };
}

export function makeSystem(
  traits: SystemTraits,
  protocol: Protocol,
  given: Options,
  { id, models, merged }: PoolParts,
): System {
  const members = models.map((model) => memberIn(traits.config, model));
  const options = optionsFor(
    protocol,
    given,
    members.map(({ alias }) => alias),
  );
  const callable = [...models, ...(merged?.models ?? [])];
  return {
    ...traits,
    protocol,
    options,
    protocolRevision: protocolRevisionOf(protocol, options, members),
    pool: {
      id,
      // A merged model is part of the pool: a new one begins new statistics.
      revision: revisionOf(callable.map(memberOf).map(({ alias, revision }) => [alias, revision])),
      members,
      ...(merged && {
        merges: { method: merged.method, byMask: maskedBy(traits.config, models, merged.models) },
      }),
    },
    simulated: callable.some((model) => dialectOf(model).simulated),
  };
}

function maskedBy(
  config: SystemTraits['config'],
  players: readonly ModelConfig[],
  models: readonly ModelConfig[],
): ReadonlyMap<number, Member> {
  const bitOf = new Map(players.map(({ id }, bit) => [id, 2 ** bit]));
  const maskOf = ({ merged }: ModelConfig) =>
    (merged?.parents ?? []).reduce((mask, parent) => mask + (bitOf.get(parent) ?? 0), 0);
  return new Map(models.map((model) => [maskOf(model), memberIn(config, model)]));
}

function poolParts(pool: PoolConfig, models: ReadonlyMap<string, ModelConfig>): PoolParts {
  const { id, members, merged: method } = pool;
  const found = members.flatMap((member) => models.get(member) ?? []);
  if (!method) return { id, models: found };
  const isOfPool = ({ merged }: ModelConfig) =>
    merged?.method === method && merged.parents.every((parent) => members.includes(parent));
  return { id, models: found, merged: { method, models: [...models.values()].filter(isOfPool) } };
}

/** @throws `config_invalid`, `option_invalid`: a loaded configuration has been checked for both before */
export function makeCatalog(config: Config, protocols: readonly Protocol[], plain: Protocol): Catalog {
  const models = new Map(config.models.map((model) => [model.id, model]));
  const pools = new Map(config.pools.map((pool) => [pool.id, poolParts(pool, models)]));
  const systems = new Map<string, System>();
  for (const model of config.models) {
    const budget = { calls: 1, deadlineMs: model.timeouts.totalMs };
    const limits = { budget, overrides: [], tools: 'speaker' as const };
    systems.set(
      model.id,
      makeSystem(
        { id: model.id, plain: true, config: limits },
        plain,
        {},
        { id: `~${model.id}`, models: [model] },
      ),
    );
  }
  for (const system of config.systems) {
    const protocol = protocols.find(({ name }) => name === system.protocol);
    if (!protocol) throw new TypeError(`unchecked protocol ${system.protocol}`);
    const pool = pools.get(system.pool);
    if (!pool) throw new TypeError(`unchecked pool ${system.pool}`);
    const traits = { id: system.id, plain: false, config: system };
    systems.set(`${SYSTEM_PREFIX}${system.id}`, makeSystem(traits, protocol, system.options, pool));
  }
  return { systems, models, configHash: revisionOf({ ...config, models: config.models.map(withoutSecret) }) };
}

function withoutSecret({ apiKey: _apiKey, endpoints, ...model }: ModelConfig): object {
  return { ...model, endpoints: endpoints.map(({ baseUrl }) => baseUrl) };
}
