/** Draws from a multivariate normal law, by the seeded generator that the caller hands in. */
import { EigenvalueDecomposition } from 'ml-matrix';
import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import { normalQuantile } from './special-functions.ts';

/** One standard normal value. */
export function standardNormal(random: RandomGenerator): number {
  for (;;) {
    const uniform = uniformFloat64(random);
    if (uniform > 0) return normalQuantile(uniform);
  }
}

/**
 * A source of draws from N(0, covariance). The square root comes from the eigenvectors, not from Cholesky, because
 * centred Shapley values sum to zero and so have a singular covariance.
 */
export function normalDraws(
  covariance: readonly (readonly number[])[],
  random: RandomGenerator,
): () => number[] {
  const { realEigenvalues, eigenvectorMatrix } = new EigenvalueDecomposition(
    covariance.map((row) => [...row]),
    { assumeSymmetric: true },
  );
  const scales = realEigenvalues.map((value) => Math.sqrt(Math.max(0, value)));
  const vectors = eigenvectorMatrix.to2DArray();
  return () => {
    const normals = scales.map((scale) => scale * standardNormal(random));
    return vectors.map((row) => row.reduce((sum, weight, k) => sum + weight * (normals[k] ?? 0), 0));
  };
}
