/** The list of dialects: the only place besides its own file where a provider's name occurs. */
import { openaiCompatible } from './openai-compatible.ts';
import { sim } from './sim.ts';
import type { Dialect } from './upstream.ts';

export const dialects: readonly Dialect[] = [openaiCompatible, sim];
