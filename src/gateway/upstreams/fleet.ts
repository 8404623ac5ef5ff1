/** All upstreams of one configuration: a call goes to the one that its member names. */
import type { Send } from '../../contract/call.ts';
import type { ModelConfig } from '../../contract/config.ts';
import { dialects } from './index.ts';
import type { Dialect, Upstream } from './upstream.ts';

export function dialectOf(model: ModelConfig): Dialect {
  const dialect = dialects.find(({ provider }) => provider === model.provider);
  if (!dialect) throw new TypeError(`no dialect ${model.provider}`);
  return dialect;
}

export interface Fleet {
  readonly send: Send;
  readonly close: () => Promise<void>;
}

export function openFleet(models: readonly ModelConfig[]): Fleet {
  const upstreams = new Map<string, Upstream>();
  for (const model of models) upstreams.set(model.id, dialectOf(model).open(model));
  return {
    send(exchange) {
      const upstream = upstreams.get(exchange.call.member.upstream);
      if (!upstream) throw new TypeError(`no upstream for ${exchange.call.member.alias}`);
      return upstream.send(exchange);
    },
    async close() {
      await Promise.all([...upstreams.values()].map((upstream) => upstream.close()));
    },
  };
}
