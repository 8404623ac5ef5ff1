/**
 * Takes a release from its export to the gate: verified, loaded on every replica, probed. What is wrong with the
 * release rejects it, with the reason; what is wrong with the world (a replica that is away) leaves it where it is, to
 * be taken on later. Every step can be repeated, so a controller that dies is simply started again.
 */
import { ConsortError, type ErrorCode } from '../../contract/errors.ts';
import type { Release, Stage } from '../../contract/release.ts';
import type { ServingFleet } from '../serving/fleet.ts';
import type { ReleaseBook } from './book.ts';
import { judgeRelease, type GateEvidence, type GateRules, type GateVerdict } from './gate.ts';
import { predecessorOf } from './machine.ts';
import { probeRelease, type ProbeLimits, type ProbePrompt } from './prober.ts';
import { verifyAdapter } from './verify.ts';

export interface AdvanceParts {
  readonly book: ReleaseBook;
  readonly fleet: ServingFleet;
  /** The adapter's folder: the same path here and on every replica. */
  readonly directoryOf: (release: Release) => string;
  /** Largest rank that the fleet takes. */
  readonly maxRank: number;
  /** Fixed prompts with the log-probs that the trainer computes under the release's weights. */
  readonly promptsOf: (release: Release) => Promise<readonly ProbePrompt[]>;
  readonly limits?: ProbeLimits;
}

/** Does the work of a stage; gives what was seen. */
type Step = (release: Release, parts: AdvanceParts) => Promise<string>;

const verify: Step = async (release, { directoryOf, maxRank }) => {
  const { sha256 } = release.artifact;
  const found = await verifyAdapter(directoryOf(release), { sha256, maxRank });
  return `rank ${found.rank}, ${found.modules} modules, ${found.parameters} parameters in ${found.dtype}`;
};

const load: Step = async (release, { fleet, directoryOf }) => {
  await fleet.load({ name: release.servedAs, path: directoryOf(release) });
  return `on ${fleet.replicas.length} replicas`;
};

const probe: Step = async (release, { fleet, promptsOf, limits }) => {
  const findings = await probeRelease(fleet, release.servedAs, await promptsOf(release), limits);
  const gap = Math.max(...findings.map((finding) => finding.gap)).toFixed(4);
  const shift = Math.min(...findings.map((finding) => finding.shift)).toFixed(4);
  const tokens = findings[0]?.tokens ?? 0;
  return `at most ${gap} nats a token from the trainer, at least ${shift} from the base, ${tokens} tokens`;
};

interface Advance {
  readonly to: 'verified' | 'loaded' | 'probed';
  readonly step: Step;
}

const ADVANCES: Readonly<Partial<Record<Stage, Advance>>> = {
  exported: { to: 'verified', step: verify },
  verified: { to: 'loaded', step: load },
  loaded: { to: 'probed', step: probe },
};

/** Errors that another try with the same weights would meet again, whatever is mended in the fleet. */
const OF_THE_RELEASE: readonly ErrorCode[] = [
  'artifact_invalid',
  'probe_failed',
  'serving_name_taken',
  'serving_rank_too_big',
  'serving_refused',
];

/**
 * Takes a release as far as it goes without a gate.
 *
 * @returns the release, probed or rejected
 * @throws what can be mended: a replica that is away or misses a mount, a fleet in parts, `store_unavailable`,
 *   `release_conflict`
 */
export async function advanceRelease(release: Release, parts: AdvanceParts): Promise<Release> {
  let current = release;
  for (let next = ADVANCES[current.stage]; next; next = ADVANCES[current.stage]) {
    let reason: string;
    try {
      reason = await next.step(current, parts);
    } catch (error) {
      const known = ConsortError.from(error);
      if (!OF_THE_RELEASE.includes(known.code)) throw error;
      return parts.book.move(current, 'rejected', known.message);
    }
    current = await parts.book.move(current, next.to, reason);
  }
  return current;
}

/** Asks the gate about a probed release, and does what it says. */
export async function decideRelease(
  release: Release,
  evidence: GateEvidence,
  book: ReleaseBook,
  rules?: GateRules,
): Promise<{ readonly verdict: GateVerdict; readonly release: Release }> {
  const verdict = judgeRelease(evidence, rules);
  const reason = verdict.findings.map((finding) => `${finding.about}: ${finding.reason}`).join('; ');
  if (verdict.decision === 'wait') return { verdict, release };
  const next =
    verdict.decision === 'promote' ? book.promote(release, reason) : book.move(release, 'rejected', reason);
  return { verdict, release: await next };
}

/**
 * What the fleet must have: the live version, the one that a rollback would go to, and those on their way. Load them
 * now and then: replicas forget adapters at a restart. What is not among them can be unloaded once no request can name
 * it any more, that is `server.maxStreamSeconds` after it was live.
 */
export function wantedOf(releases: readonly Release[]): Release[] {
  const live = releases.find(({ stage }) => stage === 'live');
  const previous = live && predecessorOf(live, releases);
  const onTheirWay = releases.filter(({ stage }) => stage === 'loaded' || stage === 'probed');
  return [...(live ? [live] : []), ...(previous ? [previous] : []), ...onTheirWay];
}
