/** From two versions' runs on the same prompts to what the gate looks at. */
import type { GateEvidence, Traffic } from './gate.ts';

/** One run of the whole team. */
export interface TeamRun {
  /** Prompts of one cluster say the same: only the first of them counts. */
  readonly cluster: string;
  /** In [0, 1]; null when nobody could grade it. */
  readonly reward: number | null;
  readonly failed: boolean;
  readonly latencyMs: number;
}

/** @param live and candidate by prompt */
export function evidenceOf(
  live: ReadonlyMap<string, TeamRun>,
  candidate: ReadonlyMap<string, TeamRun>,
): GateEvidence {
  const clusters = new Set<string>();
  const pairs = [...live].flatMap(([prompt, before]) => {
    const after = candidate.get(prompt);
    if (!after || before.reward === null || after.reward === null || clusters.has(before.cluster)) return [];
    clusters.add(before.cluster);
    return [{ live: before.reward, candidate: after.reward }];
  });
  return { pairs, live: trafficOf([...live.values()]), candidate: trafficOf([...candidate.values()]) };
}

function trafficOf(runs: readonly TeamRun[]): Traffic {
  return {
    requests: runs.length,
    failed: runs.filter(({ failed }) => failed).length,
    latenciesMs: runs.filter(({ failed }) => !failed).map(({ latencyMs }) => latencyMs),
  };
}
