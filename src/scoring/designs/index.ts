/** The list of designs: the only place besides its own file where a design's name occurs. */
import type { Design } from './design.ts';
import { full } from './full.ts';
import { leaveOneOut } from './leave-one-out.ts';

export const designs: readonly Design[] = [full, leaveOneOut];
