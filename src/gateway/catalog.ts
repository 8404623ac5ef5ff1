/** What can be asked for: models, and systems made of a pool and a protocol. Built once from a configuration. */
import { createHash } from 'node:crypto';
import Value from 'typebox/value';
import type { Config, ModelConfig, SystemConfig } from '../contract/config.ts';
import { ConsortError } from '../contract/errors.ts';
import type { Member } from '../contract/plan.ts';
import type { Options, Protocol } from './protocols/protocol.ts';
import { dialectOf } from './upstreams/fleet.ts';

export interface System {
  readonly id: string;
  /** Set when the system is a plain model behind its alias: then bytes pass through. */
  readonly plain: boolean;
  readonly protocol: Protocol;
  readonly options: Options;
  readonly protocolRevision: string;
  readonly pool: { readonly id: string; readonly revision: string; readonly members: readonly Member[] };
  readonly config: Pick<SystemConfig, 'budget' | 'overrides' | 'reward'>;
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
 * @throws `option_invalid` naming the option, the value and what is expected
 */
export function optionsFor(protocol: Protocol, given: Options): Options {
  const options: unknown = Value.Default(protocol.options, structuredClone(given));
  // Not compiled: a compiler run for each request with options would cost more than it saves.
  if (Value.Check(protocol.options, options)) return options;
  const [error] = Value.Errors(protocol.options, options);
  const name = error?.instancePath.slice(1) ?? '';
  const value = JSON.stringify(given[name.split('/')[0] ?? '']);
  const known = Object.keys(protocol.options.properties).join(', ') || 'none';
  const wrong = `${value ?? 'it'} ${ruleOf(error)}; the options are ${known}`;
  throw new ConsortError('option_invalid', [name, protocol.name, wrong], {
    param: `consort.options.${name}`,
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

/** The names and limits of a system besides what its pool and protocol say. */
export type SystemTraits = Pick<System, 'id' | 'plain' | 'config'>;

export function makeSystem(
  traits: SystemTraits,
  protocol: Protocol,
  given: Options,
  poolId: string,
  models: readonly ModelConfig[],
): System {
  const members = models.map(memberOf);
  const options = optionsFor(protocol, given);
  return {
    ...traits,
    protocol,
    options,
    protocolRevision: protocolRevisionOf(protocol, options, members),
    pool: {
      id: poolId,
      revision: revisionOf(members.map(({ alias, revision }) => [alias, revision])),
      members,
    },
    simulated: models.some((model) => dialectOf(model).simulated),
  };
}

/** @throws `config_invalid`, `option_invalid`: a loaded configuration has been checked for both before */
export function makeCatalog(config: Config, protocols: readonly Protocol[], plain: Protocol): Catalog {
  const models = new Map(config.models.map((model) => [model.id, model]));
  const pools = new Map(config.pools.map((pool) => [pool.id, pool.members]));
  const systems = new Map<string, System>();
  for (const model of config.models) {
    const limits = { budget: { calls: 1, deadlineMs: model.timeouts.totalMs }, overrides: [] };
    systems.set(
      model.id,
      makeSystem({ id: model.id, plain: true, config: limits }, plain, {}, `~${model.id}`, [model]),
    );
  }
  for (const system of config.systems) {
    const protocol = protocols.find(({ name }) => name === system.protocol);
    if (!protocol) throw new TypeError(`unchecked protocol ${system.protocol}`);
    const members = (pools.get(system.pool) ?? []).flatMap((id) => models.get(id) ?? []);
    const traits = { id: system.id, plain: false, config: system };
    systems.set(
      `${SYSTEM_PREFIX}${system.id}`,
      makeSystem(traits, protocol, system.options, system.pool, members),
    );
  }
  return { systems, models, configHash: revisionOf({ ...config, models: config.models.map(withoutSecret) }) };
}

function withoutSecret({ apiKey: _apiKey, ...model }: ModelConfig): Omit<ModelConfig, 'apiKey'> {
  return model;
}
