/** What a store is opened with; every kind takes the same. */
import type { Store } from '../contract/store.ts';

export interface StoreOptions {
  /**
   * How long an outcome can be found and a reward can still be joined to the other runs of its prompt.
   * @default 30 days
   */
  readonly retentionMs?: number;
  /**
   * How long an answer may take before the call fails with `store_unavailable`.
   * @default 2000
   */
  readonly timeoutMs?: number;
  /** The store stopped answering. Called once until it answers again. */
  readonly onDown?: (reason: string) => void;
  /** The store answers again. */
  readonly onUp?: () => void;
  /** An entry could not be read (torn, foreign, or of a newer version) and was passed over. */
  readonly onSkipped?: (pool: string, entryId: string) => void;
}

/** The options with their defaults filled in. */
export type StoreSettings = Required<StoreOptions>;

const nothing = (): void => {};

export function storeSettings(options: StoreOptions): StoreSettings {
  return {
    retentionMs: options.retentionMs ?? 30 * 86_400_000,
    timeoutMs: options.timeoutMs ?? 2_000,
    onDown: options.onDown ?? nothing,
    onUp: options.onUp ?? nothing,
    onSkipped: options.onSkipped ?? nothing,
  };
}

/** One implementation: which URLs it takes, and how it is opened. */
export interface StoreKind {
  readonly schemes: readonly string[];
  open(url: string, settings: StoreSettings): Promise<Store>;
}
