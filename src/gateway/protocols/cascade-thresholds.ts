/** Fits cascade: how sure each member must be for its answer to be kept, from its own answers. */
import { isotonic } from '../../scoring/statistics/isotonic.ts';
import { statedConfidence } from './confidence.ts';
import { firstAnswers, shareRight, type SoloRow } from './solo.ts';

/** Nobody is as sure: what cannot be kept is always passed on. */
const NEVER = 1;

/**
 * By alias the least confidence at which the member is right at least as often as the best of those after it: there
 * passing on gains nothing. How often it is right at a confidence is an isotonic regression. A member that is never
 * sure enough has 1; one whose endpoint tells no log-probabilities is left out.
 *
 * @param order weakest first, as the cascade asks them
 */
export function thresholdsOf(rows: readonly SoloRow[], order: readonly string[]): Record<string, number> {
  const rates = order.map((alias) => shareRight(firstAnswers(rows, alias)));
  const thresholds: [string, number][] = [];
  for (const [index, alias] of order.slice(0, -1).entries()) {
    const points = firstAnswers(rows, alias)
      .flatMap((answer) => {
        const confidence = answer?.said && statedConfidence(answer.said.answer);
        return confidence === undefined ? [] : [{ confidence, isRight: answer?.isRight === true }];
      })
      .toSorted((a, b) => a.confidence - b.confidence);
    if (points.length === 0) continue;
    const fitted = isotonic(points.map(({ isRight }) => ({ value: Number(isRight), weight: 1 })));
    const target = Math.max(...rates.slice(index + 1));
    const found = fitted.findIndex((rate) => rate >= target);
    thresholds.push([alias, found === -1 ? NEVER : (points[found]?.confidence ?? NEVER)]);
  }
  return Object.fromEntries(thresholds);
}
