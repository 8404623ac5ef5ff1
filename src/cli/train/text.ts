/** A training run as text. */
import type { CurvePoint } from '../../policy/curve.ts';
import { signed, table } from '../terminal.ts';
import type { Change, TrainReport } from './report.ts';

const BARS = '▁▂▃▄▅▆▇█';
/** Columns of the curve. */
const WIDTH = 60;

export function trainText(report: TrainReport): string {
  const { run, system, policy, objective, steps, rollouts, tasks, excluded, curve } = report;
  const left = excluded > 0 ? `, ${excluded} left out (no reward)` : '';
  const lines = [
    `${run}: ${policy} in ${system}, objective ${objective}, ${steps} steps, ${rollouts} rollouts`,
    `${tasks} held-out tasks${left}, 95 % intervals, changes paired by task`,
    '',
    ...curveLines(curve),
    '',
    table(
      ['', 'before', 'after', 'change'],
      [
        rowOf('team v(N)', report.team),
        rowOf('policy alone', report.alone),
        ...(report.leaveOneOut ? [rowOf('leave-one-out of the policy', report.leaveOneOut)] : []),
      ],
    ),
    '',
  ];
  if (report.simulated) {
    lines.unshift('SIMULATED models: these numbers say nothing about any language model.');
  }
  return lines.join('\n');
}

function rowOf(name: string, { before, after, change }: Change): string[] {
  const [low, high] = change.interval;
  return [
    name,
    before.value.toFixed(3),
    after.value.toFixed(3),
    `${signed(change.value)} [${signed(low)}, ${signed(high)}]`,
  ];
}

/** Mean reward of the batches, from 0 to 1, as many batches a column as are needed. */
function curveLines(curve: readonly CurvePoint[]): string[] {
  const objectives = [...new Set(curve.flatMap(({ rewards }) => rewards.map(({ objective }) => objective)))];
  return objectives.map((objective) => {
    const means = curve.flatMap(({ rewards }) => {
      const mean = rewards.find((one) => one.objective === objective)?.mean;
      return typeof mean === 'number' ? [mean] : [];
    });
    const first = means[0]?.toFixed(3) ?? '–';
    const last = means.at(-1)?.toFixed(3) ?? '–';
    return `reward, ${objective.padEnd(4)}  ${first} ${sparkline(means)} ${last}`;
  });
}

function sparkline(values: readonly number[]): string {
  const columns = Math.min(WIDTH, values.length);
  return Array.from({ length: columns }, (_, column) => {
    const from = Math.floor((column * values.length) / columns);
    const to = Math.floor(((column + 1) * values.length) / columns);
    const part = values.slice(from, to);
    const mean = part.reduce((sum, value) => sum + value, 0) / part.length;
    const level = Math.round(Math.min(1, Math.max(0, mean)) * (BARS.length - 1));
    return BARS[level] ?? '';
  }).join('');
}
