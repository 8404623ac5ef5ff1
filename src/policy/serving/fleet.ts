/**
 * The one interface of a serving fleet: the replicas that serve the adapters of a policy. To add an engine: a file
 * with a `FleetKind`, a line in the list, and what its tests ask of vLLM.
 */

export interface Adapter {
  /** Immutable: never used for other weights. */
  readonly name: string;
  /** Where the replicas find it, on their own file system. */
  readonly path: string;
}

/** An adapter as a replica lists it. */
export interface LoadedAdapter extends Adapter {
  /** The model it is laid over; null when the replica does not say. */
  readonly base: string | null;
}

/** What one replica has. */
export interface ReplicaAdapters {
  readonly replica: string;
  readonly adapters: readonly LoadedAdapter[];
}

/** What one replica computes for a fixed prompt. */
export interface ReplicaProbe {
  readonly replica: string;
  /** Natural log-probability of each token given those before it; null for the first, which has none before it. */
  readonly logprobs: readonly (number | null)[];
}

export interface ServingFleet {
  /** Addresses, as they are named in errors. */
  readonly replicas: readonly string[];
  /** Name under which the base model is asked. */
  readonly base: string;
  /**
   * Loads an adapter on every replica, and verifies it. Again on a replica that has it, it does nothing: replicas
   * forget their adapters at a restart, so call it for everything that is to be served.
   *
   * @throws `serving_*`; when replicas differ, `serving_partial` with the reason of each that failed
   */
  load(adapter: Adapter): Promise<void>;
  /** What each replica has. @throws `serving_*` when one cannot be asked */
  loaded(): Promise<ReplicaAdapters[]>;
  /** Requires that every replica lists the adapter, from our path and over our base. @throws `serving_*` */
  verify(adapter: Adapter): Promise<void>;
  /** Unloads it everywhere; where it is not loaded, nothing happens. Only when no request can name it any more. */
  unload(name: string): Promise<void>;
  /** Log-probs of a prompt of token ids, from every replica, under an adapter's name or the base's. */
  probe(name: string, tokens: readonly number[]): Promise<ReplicaProbe[]>;
  close(): Promise<void>;
}

export interface FleetOptions {
  /** Base URLs up to and with /v1, one a replica: never a load balancer, which would hide all but one. */
  readonly replicas: readonly string[];
  readonly base: string;
  readonly apiKey?: string;
  readonly timeouts?: Partial<FleetTimeouts>;
}

/** Milliseconds. */
export interface FleetTimeouts {
  readonly connectMs: number;
  /** A replica reads the adapter from disk before it answers. */
  readonly loadMs: number;
  readonly listMs: number;
  readonly probeMs: number;
}

export interface FleetKind {
  readonly kind: string;
  open(options: FleetOptions): ServingFleet;
}
