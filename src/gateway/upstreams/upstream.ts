/** The one interface of a dialect: how to put a call to a model behind some API. */
import type { PassedRoute, Send } from '../../contract/call.ts';
import type { ModelConfig } from '../../contract/config.ts';
import type { ProbeReport } from './probe.ts';

export interface Upstream {
  readonly send: Send;
  /** Closes connections; calls under way are aborted. */
  readonly close: () => Promise<void>;
}

export interface Dialect {
  readonly provider: ModelConfig['provider'];
  /** Whether its answers are made up by a simulator: every record and report says so. */
  readonly simulated: boolean;
  /** Routes besides chat that its endpoints may have. */
  readonly routes?: readonly PassedRoute[];
  readonly open: (model: ModelConfig) => Upstream;
  /** Finds out what the endpoint can do by asking it; undefined where there is nothing to ask. Never rejects. */
  readonly probe?: (model: ModelConfig) => Promise<ProbeReport>;
}
