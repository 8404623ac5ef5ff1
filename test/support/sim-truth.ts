/** How far an evaluation of the simulated pool is from its exact values, in standard errors. */
import { readFileSync } from 'node:fs';
import type { SweepReport } from '../../src/scoring/sweep/report.ts';

interface Values {
  readonly grand: number;
  readonly shapley: Record<string, number>;
  readonly loo: Record<string, number>;
  readonly v: Record<string, number>;
}
type TruthFile = { readonly protocols: Record<string, Record<string, Values>> };

const file = new URL('../fixtures/vectors/sim-truth.json', import.meta.url);

/** The exact values are named after the methods they describe; debate with two revisions is three rounds. */
const METHODS: Readonly<Record<string, string>> = { vote: 'majority_vote', debate: 'debate_r2' };

export interface Deviation {
  readonly name: string;
  readonly value: number;
  readonly exact: number;
  readonly standardError: number;
  readonly z: number;
}

export function truthOf(system: string): Values {
  const truth = JSON.parse(readFileSync(file, 'utf8')) as TruthFile;
  return truth.protocols[METHODS[system] ?? '']!['mixture']!;
}

const alias = (name: string) => name.replace('/', '-');

/** One deviation for every coalition's value, every leave-one-out and every Shapley value. */
export function deviations(system: string, report: SweepReport): Deviation[] {
  const truth = truthOf(system);
  const found: Deviation[] = [];
  const add = (name: string, exact: number, value: number, standardError: number) =>
    found.push({ name, value, exact, standardError, z: (value - exact) / standardError });
  for (const [coalition, exact] of Object.entries(truth.v)) {
    const cell = report.cells[coalition.split(',').map(alias).join('+')];
    if (cell) add(coalition, exact, cell.value, cell.standardError);
  }
  const metrics = { 'leave-one-out': truth.loo, shapley: truth.shapley };
  for (const [metric, exacts] of Object.entries(metrics)) {
    for (const [name, exact] of Object.entries(exacts)) {
      const estimate = report.estimates.find((one) => one.metric === metric && one.subject === alias(name));
      if (estimate) add(`${metric} ${name}`, exact, estimate.value, estimate.standardError);
    }
  }
  return found;
}
