/** Numbers in any nesting, compared within a tolerance. */
import type { Test } from 'tap';

/** Fails unless every number of `found` is within `tolerance` (relative above 1) of its twin in `wanted`. */
export function near(test: Test, found: unknown, wanted: unknown, tolerance: number, message: string): void {
  const a = [found].flat(Infinity) as number[];
  const b = [wanted].flat(Infinity) as number[];
  const off = b.map((value, i) => Math.abs((a[i] ?? NaN) - value) / Math.max(1, Math.abs(value)));
  const worst = Math.max(0, ...off);
  test.ok(a.length === b.length && worst <= tolerance, `${message}: off by ${worst}`);
}
