/**
 * Evaluates the simulated pool over many seeds and compares every value with the exact one. Writes
 * docs/experiments/sim-truth.md. SIMULATED: it checks estimators, it says nothing about language models.
 */
import { writeFileSync } from 'node:fs';
import { evaluateSim } from '../../test/support/evaluate-sim.ts';
import { deviations, truthOf, type Deviation } from '../../test/support/sim-truth.ts';

const SEEDS = 20;
const PROMPTS = 200;
const lines = [
  '# The simulated pool: estimates against exact values',
  '',
  'SIMULATED models: this checks the estimators and the protocols, and says nothing about language models.',
  `Written by \`npm run check:truth\`: ${SEEDS} seeds, ${PROMPTS} prompts each, all 31 coalitions on every prompt.`,
  '',
  '| system | values | outside their 99 % interval | worst, in standard errors | mean deviation | exact v(N) | mean estimate |',
  '|---|---|---|---|---|---|---|',
];
let agrees = true;
for (const system of ['vote', 'debate']) {
  const all: Deviation[] = [];
  const grand: number[] = [];
  for (let seed = 1; seed <= SEEDS; seed++) {
    const report = await evaluateSim(system, PROMPTS, seed);
    all.push(...deviations(system, report));
    grand.push(report.estimates.find(({ metric }) => metric === 'value')!.value);
    process.stderr.write(`${system} seed ${seed}\r`);
  }
  const outside = all.filter(({ z }) => Math.abs(z) > 2.576).length;
  const worst = Math.max(...all.map(({ z }) => Math.abs(z)));
  const mean = all.reduce((sum, { z }) => sum + z, 0) / all.length;
  const average = grand.reduce((sum, value) => sum + value, 0) / grand.length;
  agrees &&= outside <= 0.03 * all.length && worst < 4.5;
  const share = `${outside} (${((100 * outside) / all.length).toFixed(2)} %)`;
  const cells = [
    system,
    all.length,
    share,
    worst.toFixed(2),
    mean.toFixed(3),
    truthOf(system).grand,
    average.toFixed(4),
  ];
  lines.push(`| ${cells.join(' | ')} |`);
}
lines.push(
  '',
  `Agreement asks for at most 3 % outside and none beyond 4.5: ${agrees ? 'it holds' : 'IT DOES NOT HOLD'}.`,
  '',
);
const text = lines.join('\n');
writeFileSync(new URL('../../docs/experiments/sim-truth.md', import.meta.url), text);
process.stdout.write(text);
process.exitCode = agrees ? 0 : 1;
