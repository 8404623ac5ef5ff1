/** Logistic regression with a ridge penalty, by iteratively reweighted least squares (le Cessie & van Houwelingen 1992). */
import { Matrix, solve } from 'ml-matrix';

export interface LogisticModel {
  readonly bias: number;
  readonly weights: readonly number[];
}

/** Weights of the steps are kept away from 0, where a step would have no end. */
const LEAST_WEIGHT = 1e-6;
const MOST_STEPS = 50;
const CLOSE = 1e-8;

export function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

/** The model's probability for one row. */
export function probabilityOf({ bias, weights }: LogisticModel, row: readonly number[]): number {
  return sigmoid(weights.reduce((sum, weight, index) => sum + weight * (row[index] ?? 0), bias));
}

/**
 * The model that maximises the likelihood less ridge/2 times the sum of the squared weights; the bias is not penalised.
 *
 * @param rows of one length
 * @param labels one a row
 * @param ridge positive: then there is a maximum, also where the labels can be told apart
 */
export function logisticRidge(
  rows: readonly (readonly number[])[],
  labels: readonly boolean[],
  ridge: number,
): LogisticModel {
  const [first] = rows;
  if (!first || rows.length !== labels.length || !(ridge > 0)) {
    throw new RangeError(`need a label for each of one or more rows and a positive ridge, got ${ridge}`);
  }
  const design = new Matrix(rows.map((row) => [1, ...row]));
  const penalty = Matrix.diag([0, ...first.map(() => ridge)]);
  // Where all labels are the same the bias alone would grow without end: half a case of each kind holds it.
  const share = (labels.filter(Boolean).length + 0.5) / (labels.length + 1);
  let beta = Matrix.zeros(first.length + 1, 1);
  beta.set(0, 0, Math.log(share / (1 - share)));
  if (labels.every((label) => label === labels[0])) {
    return { bias: beta.get(0, 0), weights: first.map(() => 0) };
  }
  for (let step = 0; step < MOST_STEPS; step++) {
    const chances = design.mmul(beta).to1DArray().map(sigmoid);
    const weights = chances.map((chance) => Math.max(LEAST_WEIGHT, chance * (1 - chance)));
    const residual = Matrix.columnVector(chances.map((chance, index) => Number(labels[index]) - chance));
    const gradient = design.transpose().mmul(residual).sub(penalty.mmul(beta));
    const weighted = design.clone().mulColumnVector(weights);
    const hessian = design.transpose().mmul(weighted).add(penalty);
    const change = solve(hessian, gradient);
    beta = beta.add(change);
    if (Math.max(...change.to1DArray().map(Math.abs)) < CLOSE) break;
  }
  const [bias = 0, ...weights] = beta.to1DArray();
  return { bias, weights };
}
