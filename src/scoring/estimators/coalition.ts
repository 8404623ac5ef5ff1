/** A coalition is a bit mask: bit i stands for the i-th player. */

/** Pools up to this size have an exact table of all coalitions. */
export const MOST_PLAYERS = 20;

/** The mask of all `n` players. */
export function grandMask(n: number): number {
  return 2 ** n - 1;
}

/** Number of players in a coalition. */
export function coalitionSize(mask: number): number {
  let bits = mask - ((mask >>> 1) & 0x55555555);
  bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
  return (((bits + (bits >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}

/** The players of a coalition in their order, joined by commas; the empty one is the empty string. */
export function coalitionName(mask: number, players: readonly string[]): string {
  return players.filter((_, i) => hasPlayer(mask, i)).join(',');
}

export function hasPlayer(mask: number, i: number): boolean {
  return ((mask >>> i) & 1) === 1;
}

/** C(n, k), exact for n <= 50; 0 outside 0 <= k <= n. */
export function choose(n: number, k: number): number {
  if (k < 0 || k > n) return 0;
  let result = 1;
  for (let i = 1; i <= Math.min(k, n - k); i += 1) result = (result * (n - i + 1)) / i;
  return result;
}
