/**
 * Options with which runs are small enough for windows of 512 tokens and two cores, by protocol; what is not named here
 * runs with its defaults. Shared by the training prompts and by the benchmark of the protocols.
 */
import type { Options } from '../../src/gateway/protocols/protocol.ts';

export const SMALL_OPTIONS: Readonly<Record<string, Options>> = {
  // By log-probabilities it would rarely ask, and the question is to be practised, too.
  cascade: { mode: 'ask' },
  // One layer is a fusion.
  mixture: { layers: 2 },
  mux: { samples: 3 },
  blackboard: { maxIterations: 2 },
};
