/** An evaluation as text: a table by member, and the team against its best member. */
import type { Estimate, Metric } from '../contract/estimate.ts';
import type { System } from '../gateway/catalog.ts';
import type { SweepReport } from '../scoring/sweep/report.ts';
import { signed, table, type Cell } from './terminal.ts';

/** Value, interval, rank interval and status of one estimate. */
export function estimateCells(estimate: Estimate | undefined, plus: boolean): Cell[] {
  if (!estimate) return ['–', '', ''];
  const { value, interval, status, rank } = estimate;
  const show = plus ? signed : (number: number) => number.toFixed(3);
  const range = `[${show(interval[0])}, ${show(interval[1])}]`;
  const ranks = rank ? (rank[0] === rank[1] ? `#${rank[0]}` : `#${rank[0]}–${rank[1]}`) : '';
  return [`${show(value)} ${range}`, ranks, status];
}

/** The table of all members: individual strength, leave-one-out and centred Shapley. */
export function memberTable(members: readonly string[], estimates: readonly Estimate[]): string {
  const find = (metric: Metric, subject: string) =>
    estimates.find((estimate) => estimate.metric === metric && estimate.subject === subject);
  const rows = members.map((alias): Cell[] => {
    const [individual = '', individualRank = ''] = estimateCells(find('individual', alias), false);
    const [loo = '', looRank = '', looStatus = ''] = estimateCells(find('leave-one-out', alias), true);
    const [centred = '', centredRank = '', centredStatus = ''] = estimateCells(
      find('shapley-centred', alias),
      true,
    );
    return [alias, individual, individualRank, loo, looRank, looStatus, centred, centredRank, centredStatus];
  });
  const header = [
    'member',
    'individual',
    'rank',
    'leave-one-out',
    'rank',
    'status',
    'centred Shapley',
    'rank',
    'status',
  ];
  return table(header, rows);
}

export function evalText(system: System, tasks: string, report: SweepReport): string {
  const { grand, lines } = heading(system, tasks, report);
  const members = system.pool.members.map(({ alias }) => alias);
  lines.push('', memberTable(members, report.estimates), '');
  if (grand) {
    const [low, high] = grand.interval;
    lines.push(`team v(N) = ${grand.value.toFixed(3)} [${low.toFixed(3)}, ${high.toFixed(3)}]`);
  }
  if (report.overBest) {
    const { value, pValue } = report.overBest;
    const verdict = pValue < 0.05 ? 'the team is better' : 'collaboration is not shown to pay here';
    lines.push(
      `against the best member (chosen on the other half): ${signed(value)}, p = ${pValue.toFixed(3)}: ${verdict}`,
    );
  }
  lines.push(
    `${report.calls} calls, ${report.reused} reused between coalitions, ${report.costUsd.toFixed(4)} USD`,
    '',
  );
  return lines.join('\n');
}

function heading(
  system: System,
  tasks: string,
  report: SweepReport,
): { grand: Estimate | undefined; lines: string[] } {
  const grand = report.estimates.find(({ metric }) => metric === 'value');
  const excluded = report.excluded > 0 ? `, ${report.excluded} left out (no reward)` : '';
  const lines = [
    `${system.id}: ${system.protocol.name} over ${system.pool.id}, ${report.n} prompts of ${tasks}${excluded}`,
    `source ${grand?.source ?? ''}, design ${grand?.design ?? ''}, 95 % intervals`,
  ];
  if (system.simulated)
    lines.unshift('SIMULATED models: these numbers say nothing about any language model.');
  return { grand, lines };
}
