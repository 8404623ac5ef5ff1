/**
 * What the learner asks of a trainer, whatever protocol it speaks. A trainer owns forward, backward, optimiser and
 * sharding; groups, rewards and advantages are made here. One run has one policy, one journal and one writer.
 *
 * The way of a step: `submitGroups` (journal, send, wait, check) then `step` (optimise). What `submitGroups` took is
 * in the journal: after a crash `ensureRun` finishes that step exactly once, so its groups need not be kept.
 */
import type { TrajectoryGroup } from '../../contract/trajectory.ts';
import type { Reduction } from '../datums.ts';
import type { CodecName, Loss } from './codec.ts';

export type { Loss };

/** The right to write to a run, with its fencing token (`Leases` in src/contract/store.ts gives both). */
export interface WriterLease {
  /** Rises with every new holder. */
  readonly token: number;
  /** Whether it is still this process that holds it; asked before every change. */
  isHeld(): boolean | Promise<boolean>;
}

export interface RunOptions {
  /** Names the run and its directory: letters, digits, `-` and `_`. */
  readonly run: string;
  /** As the server names it. */
  readonly baseModel: string;
  /** Of the LoRA adapter. */
  readonly rank: number;
  /** Of the adapter's initial weights: the same run can be begun again with the same ones. */
  readonly seed: number;
}

/** Adam's settings. SkyRL ignores `gradClipNorm`. */
export interface Adam {
  readonly learningRate: number;
  readonly beta1?: number;
  readonly beta2?: number;
  readonly eps?: number;
  readonly weightDecay?: number;
  readonly gradClipNorm?: number;
}

export interface Batch {
  /** Accepted groups, all of them that the step learns from. Those that the journal knows already are left out. */
  readonly groups: readonly TrajectoryGroup[];
  /** L₀ of the objective, in tokens (`foldNormaliser`). */
  readonly lengthScale: number;
  readonly adam: Adam;
  /** Importance sampling when absent: the one loss that every server has. */
  readonly loss?: Loss;
}

/** How the server's log-probs and the behaviour policy's differ, over the trained tokens. */
export interface Gap {
  readonly tokens: number;
  /** Mean of lp_train − lp_behaviour, in nats a token: near 0 for a policy that was just sampled. */
  readonly mean: number;
  /** Mean of ρ − 1 − ln ρ, the estimator of the divergence that is never negative. */
  readonly k3: number;
  /** Largest ρ = exp(lp_train − lp_behaviour). */
  readonly largestRatio: number;
}

export interface Submission {
  /** The step that it belongs to; the first is 1. */
  readonly step: number;
  readonly groupIds: readonly string[];
  readonly datums: number;
  readonly chunks: number;
  /** Σ of the token losses as the server gave them; null when it gives none. */
  readonly loss: number | null;
  readonly gap: Gap;
}

export interface StepDone {
  readonly step: number;
  readonly groupIds: readonly string[];
  /** The server's own, finite ones only. */
  readonly metrics: Readonly<Record<string, number>>;
}

export interface RunState {
  readonly run: string;
  /** Steps taken. */
  readonly step: number;
  /** The last step whose state is saved with the trainer, 0 when none is. */
  readonly savedStep: number;
  /** Groups that were trained on; they must not be submitted again, and if they are, they are left out. */
  readonly consumed: ReadonlySet<string>;
  /** Groups of steps that were given up, with the reason. */
  readonly dropped: ReadonlyMap<string, string>;
}

export interface SavedState {
  readonly step: number;
  /** The server's own name for it. */
  readonly path: string;
}

/** A policy as files: an adapter that vLLM loads, checked. */
export interface ExportedPolicy {
  readonly name: string;
  readonly step: number;
  /** Holds `adapter_model.safetensors` and `adapter_config.json`. */
  readonly directory: string;
  /** Lower-case hex SHA-256 of the archive as it came. */
  readonly sha256: string;
  readonly bytes: number;
  readonly rank: number;
  readonly tensors: number;
  readonly targetModules: readonly string[];
}

export interface Probe {
  /** What the server calls the models that it trains. */
  readonly baseModels: readonly string[];
}

/** What a server does where servers differ; found out by the self-test, never assumed. */
export interface Dialect {
  readonly reduction: Reduction;
  /** Whether datums carry `weights`. */
  readonly sendWeights: boolean;
  readonly codec: CodecName;
  /** Whether the same sequence number with the same payload is carried out once. */
  readonly replaySafe: boolean;
}

export interface TrainerPort {
  /** Whether the server answers, and what it can train. */
  probe(signal?: AbortSignal): Promise<Probe>;
  /** Begins the run or takes it up again: finishes what the journal holds unfinished. Call it first. */
  ensureRun(options: RunOptions, lease: WriterLease): Promise<RunState>;
  /** Adds the gradients of a step's groups. Nothing when no group is new or none has a signal. */
  submitGroups(batch: Batch): Promise<Submission | undefined>;
  /** Takes the optimiser's step for what was submitted. */
  step(): Promise<StepDone>;
  /** Log-probs of each token but the first, under the current weights. */
  score(sequences: readonly (readonly number[])[]): Promise<number[][]>;
  /** Saves weights and optimiser with the trainer; what came before need not be replayed any more. */
  saveState(): Promise<SavedState>;
  /**
   * The current weights as a checked PEFT directory.
   *
   * @param name under which the server keeps it: letters, digits, `-` and `_`, never used before in the run
   * @param directory to make; must not exist
   */
  exportPolicy(name: string, directory: string): Promise<ExportedPolicy>;
  /** Stops the heartbeat and the connections; the run stays and can be taken up again. */
  close(): Promise<void>;
}
