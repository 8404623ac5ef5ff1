/** The verifiers. A new one is a file of its own and a line here. */
import { exactMatch } from './exact-match.ts';
import { multipleChoice } from './multiple-choice.ts';
import { numeric } from './numeric.ts';
import type { PureVerifier } from './reward.ts';

export const verifiers: readonly PureVerifier[] = [exactMatch, multipleChoice, numeric];
