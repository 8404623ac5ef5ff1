/** All upstreams of one configuration: a call goes to the one that its member names. */
import type { CallNote, Send } from '../../contract/call.ts';
import type { ModelConfig } from '../../contract/config.ts';
import type { Member } from '../../contract/plan.ts';
import { Breaker, type CircuitState } from './breaker.ts';
import { Endpoint } from './endpoint.ts';
import { Endpoints } from './endpoints.ts';
import { dialects } from './index.ts';
import type { Dialect } from './upstream.ts';

export function dialectOf(model: ModelConfig): Dialect {
  const dialect = dialects.find(({ provider }) => provider === model.provider);
  if (!dialect) throw new TypeError(`no dialect ${model.provider}`);
  return dialect;
}

/** Where the breaker of an endpoint stands. */
export interface Circuit {
  readonly model: string;
  readonly endpoint: string;
  readonly state: CircuitState;
}

export interface Fleet {
  readonly send: Send;
  /** Whether a failed call of this member could be sent somewhere else at once. */
  readonly isElsewhere: (member: Member, note: CallNote) => boolean;
  readonly circuits: () => readonly Circuit[];
  readonly close: () => Promise<void>;
}

export interface FleetHooks {
  /** The breaker of an endpoint has changed its state. */
  readonly onCircuit?: (circuit: Circuit) => void;
}

/** A model as each of its endpoints has it: an address and the key for it. Never empty. */
export function placesOf(model: ModelConfig): readonly ModelConfig[] {
  const { baseUrl, apiKey, endpoints, ...shared } = model;
  if (endpoints.length === 0) return [model];
  const origin = baseUrl === undefined ? undefined : new URL(baseUrl).origin;
  const own = baseUrl === undefined ? [] : [{ baseUrl, ...(apiKey !== undefined && { apiKey }) }];
  const others = endpoints.map((endpoint) => {
    // A key goes to the address that it was given for, and to no other.
    const isForAll = origin === undefined || origin === new URL(endpoint.baseUrl).origin;
    const key = endpoint.apiKey ?? (isForAll ? apiKey : undefined);
    return { baseUrl: endpoint.baseUrl, ...(key !== undefined && { apiKey: key }) };
  });
  return [...own, ...others].map((place) => ({ ...shared, ...place, endpoints: [] }));
}

function endpointsOf(model: ModelConfig, hooks: FleetHooks): Endpoints {
  const seen = new Map<string, number>();
  const all = placesOf(model).map((place) => {
    const host = place.baseUrl === undefined ? place.provider : new URL(place.baseUrl).host;
    const count = (seen.get(host) ?? 0) + 1;
    seen.set(host, count);
    return endpointOf(place, count === 1 ? host : `${host}#${count}`, hooks);
  });
  return new Endpoints(all, () => Math.random());
}

function endpointOf(model: ModelConfig, name: string, { onCircuit }: FleetHooks): Endpoint {
  const dialect = dialectOf(model);
  const { enabled, ...limits } = model.breaker;
  const about = { model: model.id, endpoint: name };
  // A simulated model gives the same answers whatever happened before.
  const breaker =
    enabled && !dialect.simulated
      ? new Breaker({
          ...limits,
          now: () => performance.now(),
          onState: (state) => onCircuit?.({ ...about, state }),
        })
      : undefined;
  return new Endpoint(model.id, name, dialect.open(model), breaker);
}

export function openFleet(models: readonly ModelConfig[], hooks: FleetHooks = {}): Fleet {
  const upstreams = new Map(models.map((model) => [model.id, endpointsOf(model, hooks)]));
  return {
    send(exchange) {
      const upstream = upstreams.get(exchange.call.member.upstream);
      if (!upstream) throw new TypeError(`no upstream for ${exchange.call.member.alias}`);
      return upstream.send(exchange);
    },
    isElsewhere: ({ upstream }, note) => upstreams.get(upstream)?.isElsewhere(note) ?? false,
    circuits: () =>
      [...upstreams].flatMap(([model, { all }]) =>
        all.flatMap(({ name, breaker }) =>
          breaker ? [{ model, endpoint: name, state: breaker.state }] : [],
        ),
      ),
    async close() {
      await Promise.all([...upstreams.values()].map((upstream) => upstream.close()));
    },
  };
}
