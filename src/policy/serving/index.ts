/** The list of serving fleets: the only place besides its own file where an engine's name occurs. */
import type { FleetKind } from './fleet.ts';
import { vllm } from './vllm.ts';

export const fleets: readonly FleetKind[] = [vllm];
