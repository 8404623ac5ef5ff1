/** All upstreams of one configuration: a call goes to the one that its member names. */
import type { Send } from '../../contract/call.ts';
import type { ModelConfig } from '../../contract/config.ts';
import { Breaker, type CircuitState } from './breaker.ts';
import { Endpoint } from './endpoint.ts';
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
  readonly circuits: () => readonly Circuit[];
  readonly close: () => Promise<void>;
}

export interface FleetHooks {
  /** The breaker of an endpoint has changed its state. */
  readonly onCircuit?: (circuit: Circuit) => void;
}

function endpointOf(model: ModelConfig, { onCircuit }: FleetHooks): Endpoint {
  const dialect = dialectOf(model);
  const name = model.baseUrl === undefined ? model.provider : new URL(model.baseUrl).host;
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
  const endpoints = new Map<string, Endpoint>();
  for (const model of models) endpoints.set(model.id, endpointOf(model, hooks));
  return {
    send(exchange) {
      const endpoint = endpoints.get(exchange.call.member.upstream);
      if (!endpoint) throw new TypeError(`no upstream for ${exchange.call.member.alias}`);
      return endpoint.send(exchange);
    },
    circuits: () =>
      [...endpoints].flatMap(([model, { name, breaker }]) =>
        breaker ? [{ model, endpoint: name, state: breaker.state }] : [],
      ),
    async close() {
      await Promise.all([...endpoints.values()].map((endpoint) => endpoint.close()));
    },
  };
}
