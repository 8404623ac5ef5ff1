/** What must hold after the kills, each with what was found. */
import { compare } from './estimates.ts';
import type { Sums } from './recount.ts';
import type { Findings, Options } from './run.ts';

export interface Verdict {
  readonly claim: string;
  readonly holds: boolean;
  readonly found: string;
}

/** Shadow runs of two prompts are under way in each of two gateways at most. */
const MOST_UNDER_WAY = 4;
/** Of two dozen intervals that each miss in fewer than one case of twenty. */
const MOST_OUTSIDE = 1;
/** In standard errors. */
const FARTHEST = 4.5;

export function verdicts(findings: Findings, { usdPerDay, learns }: Options): Verdict[] {
  const { traffic, counted, stored, leftInSpool } = findings;
  const twice = [...counted.outcomes.values()].filter((count) => count > 1).length;
  const lost = traffic.whole.filter((id) => !counted.outcomes.has(id)).length;
  const unheard = traffic.judged.filter((id) => !counted.judged.has(id)).length + traffic.unheard;
  const { compared, differences } = differencesOf(counted.sums, stored);
  const spending = [...counted.shadow].map(([name, spent]) => ({
    name,
    usd: spent.micros / 1e6,
    over: overshoot(spent.byPrompt),
  }));
  const claim = (text: string, holds: boolean, found: string): Verdict => ({ claim: text, holds, found });
  return [
    claim('Every response that arrived whole is in the stream', lost === 0, `${lost} missing`),
    claim('No outcome is in the stream twice', twice === 0, `${twice} twice`),
    claim('Every accepted feedback is in the stream', unheard === 0, `${unheard} missing`),
    claim(
      'The tallies equal the recount, to the integer',
      differences.length === 0 && compared > 0,
      differences.length === 0 ? `${compared} sums are equal` : differences.slice(0, 5).join('; '),
    ),
    claim(
      'The published estimates are those of all rewards',
      findings.stale.length === 0,
      findings.stale.join('; ') || 'they are',
    ),
    ...(learns ? learnerVerdicts(findings) : []),
    claim('Nothing was set aside', counted.buried === 0, `${counted.buried} entries`),
    claim('Nothing is left in the spool', leftInSpool.length === 0, `${leftInSpool.length} directories`),
    claim(
      'No request was refused',
      traffic.refused.length === 0,
      [...new Set(traffic.refused)].join(', ') || 'none',
    ),
    estimatesVerdict(findings),
    claim(
      'Shadow runs stay in their budget',
      spending.every(({ usd, over }) => usd <= usdPerDay + over),
      spending.map(({ name, usd }) => `${name}: ${usd.toFixed(4)} USD of ${usdPerDay} USD`).join('; '),
    ),
    claim(
      'The budget was reached',
      findings.refusedByBudget > 0,
      `${findings.refusedByBudget} prompts left out`,
    ),
  ];
}

function learnerVerdicts({ steps, isBack }: Findings): Verdict[] {
  return [
    {
      claim: 'The learner takes no step twice',
      holds: steps.length > 0 && new Set(steps).size === steps.length,
      found: `${steps.length} steps`,
    },
    {
      claim: 'The learner works again after its last kill',
      holds: isBack,
      found: isBack ? 'it does' : 'it does not',
    },
  ];
}

function estimatesVerdict({ estimates }: Findings): Verdict {
  const compared = compare(estimates);
  const outside = compared.filter(({ isInside }) => !isInside).length;
  // With fewer prompts than that, the error of an error is too large to count in it.
  const sure = compared.filter(({ estimate }) => estimate.clusters >= 100);
  const worst = Math.max(0, ...sure.map(({ deviation }) => Math.abs(deviation)));
  return {
    claim: 'The estimates agree with the simulated truth',
    holds: sure.length > 0 && outside <= MOST_OUTSIDE && worst < FARTHEST,
    found: `${outside} of ${compared.length} outside their interval, the worst ${worst.toFixed(2)} standard errors away`,
  };
}

/** What the prompts whose shadow runs are under way can cost beyond what was reserved: all of it, at worst. */
function overshoot(byPrompt: ReadonlyMap<string, number>): number {
  return (MOST_UNDER_WAY * Math.max(0, ...byPrompt.values())) / 1e6;
}

function differencesOf(counted: ReadonlyMap<string, Sums>, stored: ReadonlyMap<string, Sums>) {
  const differences: string[] = [];
  let compared = 0;
  for (const series of new Set([...counted.keys(), ...stored.keys()])) {
    const [own, other] = [counted.get(series), stored.get(series)];
    for (const field of new Set([...(own?.keys() ?? []), ...(other?.keys() ?? [])])) {
      compared++;
      const [expected, found] = [own?.get(field) ?? 0n, other?.get(field) ?? 0n];
      if (expected !== found)
        differences.push(`${series.replaceAll('\n', ' ')} ${field}: ${found}, recount ${expected}`);
    }
  }
  return { compared, differences };
}
