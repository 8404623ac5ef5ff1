/** What the gateway is handed: the composition root wires it, tests hand it something smaller. */
import type { FastifyBaseLogger } from 'fastify';
import type { Clock, NewId, RunSystem } from '../contract/capabilities.ts';
import type { Config } from '../contract/config.ts';
import type { Outcome } from '../contract/outcome.ts';
import type { Estimates, Ledger, LedgerEntry, Releases } from '../contract/store.ts';
import type { Catalog } from './catalog.ts';
import type { Admission } from './limits/admission.ts';
import type { Limits } from './limits/limits.ts';
import type { KeptResponses } from './kept-responses.ts';
import type { Metrics } from './metrics.ts';
import type { Resolve } from './resolve.ts';
import type { ToolTurns } from './tool-turns.ts';
import type { UnderWay } from './under-way.ts';

/** Where entries wait until the ledger has them. */
export interface Recorder {
  /** Takes an entry before the response ends; false when it had to be dropped. */
  readonly append: (entry: LedgerEntry) => boolean;
  /** An outcome that the store may not have yet. */
  readonly find: (outcomeId: string) => Promise<Outcome | undefined>;
}

/** What the gateway looks up in the store. */
export interface Shelf {
  readonly ledger: Pick<Ledger, 'outcome'>;
  readonly estimates: Pick<Estimates, 'query'>;
  readonly releases: Pick<Releases, 'list'>;
}

export interface GatewayParts {
  readonly config: Config;
  /** The current generation. */
  readonly catalog: () => Catalog;
  readonly resolve: Resolve;
  readonly run: RunSystem;
  readonly store: Shelf;
  readonly recorder: Recorder;
  readonly turns: Pick<ToolTurns, 'recall' | 'keep'>;
  readonly responses: Pick<KeptResponses, 'keep' | 'find' | 'forget'>;
  readonly admission: Admission;
  readonly limits: Limits;
  readonly underWay: UnderWay;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly logger: FastifyBaseLogger;
  /** Shown in /v1/models and at start: how the configuration came about. */
  readonly notice: string | null;
}
