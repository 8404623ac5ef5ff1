/** The lists of designs: the only place besides its own file where a design's name occurs. */
import type { Design } from './design.ts';
import { duel } from './duel.ts';
import { full } from './full.ts';
import { leaveOneOut } from './leave-one-out.ts';
import { leaveOneOutRotation } from './leave-one-out-rotation.ts';
import type { ShadowDesign } from './shadow-design.ts';

/** Designs of closed evaluations. */
export const designs: readonly Design[] = [full, leaveOneOut];
/** Designs that run again, in the background, what was answered live. */
export const shadowDesigns: readonly ShadowDesign[] = [duel, leaveOneOutRotation];
