/** The team against its best member: chosen on one half of the tasks, compared on the other at the team's cost. */
import { bonettPriceInterval } from '../../scoring/statistics/bonett-price.ts';

export interface Comparison {
  readonly best: string;
  readonly n: number;
  readonly team: number;
  readonly alone: number;
  /** 95 % interval of team − alone on the same tasks (Bonett & Price 2012). */
  readonly interval: readonly [number, number];
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** The member with the best mean reward, the first on ties. */
export function bestMember(rewards: ReadonlyMap<string, readonly number[]>): string {
  const ranked = [...rewards].toSorted(([, a], [, b]) => mean(b) - mean(a));
  const [best] = ranked;
  if (!best) throw new TypeError('there is no member');
  return best[0];
}

/** @param team rewards of the team, `alone` of the best member, on the same tasks in the same order; 0 or 1 each */
export function compare(best: string, team: readonly number[], alone: readonly number[]): Comparison {
  const wins = team.filter((reward, index) => reward > (alone[index] ?? 0)).length;
  const losses = team.filter((reward, index) => reward < (alone[index] ?? 0)).length;
  const interval = bonettPriceInterval(wins, losses, team.length, 0.05);
  return { best, n: team.length, team: mean(team), alone: mean(alone), interval };
}

export function comparisonText({ best, n, team, alone, interval }: Comparison, calls: number): string {
  const signed = (value: number) => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(3)}`;
  const range = `[${signed(interval[0])}, ${signed(interval[1])}]`;
  const verdict =
    interval[0] > 0 ? 'the team is better' : interval[1] < 0 ? 'the team is worse' : 'no difference is shown';
  return (
    `v(N) = ${team.toFixed(3)} against ${best} alone with ${calls} samples and a vote = ${alone.toFixed(3)} ` +
    `(chosen on the other half, ${n} tasks): ${signed(team - alone)} ${range}: ${verdict}`
  );
}
