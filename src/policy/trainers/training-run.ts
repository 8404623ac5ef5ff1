/**
 * One run on a Tinker server: its journal, its session, its model. Every change is in the journal before it is sent;
 * whatever fails in between, the run comes back to the weights that its steps make, each taken once:
 *
 *   the process died        the journal's last step is sent again with its numbers and payloads, and the server
 *                           carries out only what it had not (where it does so: `replaySafe`)
 *   the model is gone, or   a new model, the last saved state, and the steps since then in order, from their
 *   a chunk failed          payloads; gradients that were added half are left behind with the old model
 *   the server is away      the error goes to the caller; the step stays in the journal and is finished by the next call
 *   a step is at fault      (not finite, off policy, refused) it is dropped, said so, and the weights before it kept
 */
import { ConsortError } from '../../contract/errors.ts';
import { foldNormaliser, toWire } from '../datums.ts';
import { chunksOf, type ChunkLimits } from './chunks.ts';
import {
  assertMetrics,
  assertOnPolicy,
  assertSendable,
  GapMeter,
  logprobsOf,
  lossOf,
  metricsOf,
} from './guards.ts';
import { faultOf } from './fault.ts';
import type { TrainerHttp } from './http.ts';
import type { Journal } from './journal.ts';
import { Model, type Ticket } from './model.ts';
import type { OperationEntry, StepEntry } from './run-log.ts';
import { scoreDatum } from './score-datum.ts';
import { Session } from './session.ts';
import type { Batch, Dialect, RunOptions, RunState, StepDone, Submission, WriterLease } from './trainer.ts';

/** How often a model is built anew for one operation before its failure is believed. */
const MAX_REBUILDS = 2;
const DEFAULT_LOSS = { name: 'importance_sampling' } as const;

export interface RunParts {
  readonly http: TrainerHttp;
  readonly options: RunOptions;
  readonly lease: WriterLease;
  readonly journal: Journal;
  readonly dialect: Dialect;
  readonly limits: ChunkLimits;
  readonly guard: Guard;
  readonly heartbeatMs: number;
}

/** When trainer and serving fleet must agree on the tokens that were just sampled. */
export interface Guard {
  /** Nats a token. */
  readonly largestGap: number;
  /** `first`: at step 1, whose policy is fresh; `every`: always, for runs that are strictly on policy. */
  readonly on: 'first' | 'every';
}

type Plan = Pick<StepEntry, 'step' | 'groups' | 'chunks' | 'loss' | 'adam'> & Partial<StepEntry>;

export class TrainingRun {
  readonly #parts: RunParts;
  #session: Session | undefined;
  #model: Model | undefined;
  /** The step whose gradients are with the model. */
  #open: StepEntry | undefined;
  /** The step at which an error would be at fault. */
  #working: number | undefined;

  constructor(parts: RunParts) {
    this.#parts = parts;
  }

  get #log() {
    return this.#parts.journal.log;
  }

  /** Steps taken. */
  get position(): number {
    return this.#log.position;
  }

  get state(): RunState {
    const { position, saved, consumed, dropped } = this.#log;
    return {
      run: this.#parts.options.run,
      step: position,
      savedStep: saved?.step ?? 0,
      consumed: new Set(consumed),
      dropped: new Map(dropped),
    };
  }

  /** Brings the model to where the journal says that it is. */
  async recover(): Promise<void> {
    this.#open = undefined;
    await this.#attempt(() => this.#replay(Infinity));
  }

  async submit({ groups, lengthScale, adam, loss }: Batch): Promise<Submission | undefined> {
    if (this.#open) throw new RangeError(`step ${this.#open.step} is submitted and not taken`);
    const fresh = groups.filter(({ groupId }) => !this.#log.has(groupId));
    const { reduction, sendWeights } = this.#parts.dialect;
    const data = foldNormaliser(fresh, { reduction, lengthScale }).map((datum) => toWire(datum, sendWeights));
    if (data.length === 0) return undefined;
    assertSendable(data);
    await this.#attempt(() => this.#replay(Infinity));
    const step = this.#log.nextStep;
    const chunks = await this.#parts.journal.keep(step, chunksOf(data, this.#parts.limits));
    const plan: Plan = {
      step,
      groups: fresh.map(({ groupId }) => groupId),
      chunks,
      loss: loss ?? DEFAULT_LOSS,
      adam,
    };
    return this.#attempt(async () => {
      await this.#replay(step);
      return this.#forward(plan);
    });
  }

  async step(): Promise<StepDone> {
    const open = this.#open;
    if (!open) throw new RangeError('no step is submitted');
    const metrics = await this.#attempt(async () => {
      await this.#replay(open.step);
      if (this.#open?.model !== this.#model?.id) await this.#forward(open);
      return this.#optimise(this.#open ?? open);
    });
    return { step: open.step, groupIds: open.groups, metrics };
  }

  /** @returns the log-probs of each token but the first */
  async score(sequences: readonly (readonly number[])[]): Promise<number[][]> {
    const copies = sequences.map((sequence) => [...sequence]);
    return this.#attempt(async () => {
      await this.#replay(Infinity);
      const entry = await this.#announce({ operation: 'score', sequences: copies });
      return this.#scored(entry);
    });
  }

  /** @returns the server's path of what was saved */
  async save(operation: 'save' | 'export', name: string): Promise<string> {
    if (this.#open) throw new RangeError(`step ${this.#open.step} is submitted and not taken`);
    return this.#attempt(async () => {
      await this.#replay(Infinity);
      return this.#saved(await this.#announce({ operation, name }));
    });
  }

  close(): void {
    this.#session?.close();
  }

  /** Runs what may be run again on a new model; drops the step that is at fault. */
  async #attempt<T>(work: () => Promise<T>): Promise<T> {
    for (let rebuilds = 0; ; rebuilds++) {
      try {
        this.#working = undefined;
        return await work();
      } catch (error) {
        const fault = faultOf(error);
        if (fault === 'server' && rebuilds < MAX_REBUILDS) {
          await this.#abandon();
          continue;
        }
        // Whether the server carried it out is not known, and asking again could carry it out twice.
        if (fault === 'outage' && !this.#parts.dialect.replaySafe) await this.#abandon();
        if (fault !== 'outage' && fault !== 'writer') await this.#drop(error);
        throw error;
      }
    }
  }

  async #drop(error: unknown): Promise<void> {
    const step = this.#working;
    const reason = error instanceof Error ? error.message : String(error);
    const isJournaled = step !== undefined && this.#log.ahead.some((entry) => entry.step === step);
    if (isJournaled) await this.#parts.journal.append({ kind: 'dropped', step, reason });
    this.#open = undefined;
    await this.#abandon();
  }

  /** Leaves a model behind, with whatever gradients it has. */
  async #abandon(): Promise<void> {
    const model = this.#model;
    this.#session?.close();
    this.#session = undefined;
    this.#model = undefined;
    this.#isAbandoned = true;
    // Frees its place; a server that lost it, or is away, cleans up when the session has been silent.
    await model?.unload().catch(() => undefined);
  }

  #isAbandoned = false;

  /** A model with the weights of `log.position`. */
  async #ready(): Promise<Model> {
    await this.#assertWriter();
    if (this.#model && !this.#session?.isLost) return this.#model;
    const model = (await this.#resume()) ?? (await this.#rebuild());
    this.#model = model;
    this.#isAbandoned = false;
    return model;
  }

  /** The model of a process that died, if it lives and nothing on it is in doubt. */
  async #resume(): Promise<Model | undefined> {
    const { http, dialect, heartbeatMs } = this.#parts;
    const { model: last, pending, ahead } = this.#log;
    if (!last || this.#isAbandoned || this.#session?.isLost) return undefined;
    const isInDoubt = pending !== undefined || ahead.some(({ model }) => model === last.model);
    if (isInDoubt && !dialect.replaySafe) return undefined;
    const session = await Session.resume(http, last.session, heartbeatMs);
    if (!session) return undefined;
    this.#session = session;
    const model = new Model(http, last.model, dialect);
    if (await model.isKnown()) return model;
    session.close();
    return undefined;
  }

  async #rebuild(): Promise<Model> {
    const { http, options, journal, dialect, heartbeatMs } = this.#parts;
    this.#session?.close();
    this.#session = await Session.open(http, options.run, heartbeatMs);
    const model = await Model.create(http, this.#session, options, dialect);
    const { saved } = this.#log;
    if (saved) await model.load(1, saved.path);
    await journal.append({
      kind: 'model',
      session: this.#session.id,
      model: model.id,
      step: saved?.step ?? 0,
      seq: saved ? 1 : 0,
    });
    return model;
  }

  /** Finishes what was announced, then takes the steps before `end` that the model has not taken. */
  async #replay(end: number): Promise<void> {
    await this.#ready();
    const { pending } = this.#log;
    if (pending?.operation === 'score') await this.#scored(pending);
    else if (pending) await this.#saved(pending);
    for (const entry of this.#log.ahead) {
      if (entry.step >= end) break;
      await this.#forward(entry);
      await this.#optimise(this.#open ?? entry);
    }
  }

  /** The entry with numbers of the present model: those it has, or new ones, written down before they are used. */
  async #numbered(plan: Plan): Promise<StepEntry> {
    const model = await this.#ready();
    const written = this.#log.ahead.find(({ step }) => step === plan.step);
    if (written?.model === model.id) return written;
    const from = this.#log.seq + 1;
    const { step, groups, chunks, loss, adam } = plan;
    const numbers = { model: model.id, from, to: from + chunks.length };
    await this.#parts.journal.append({ kind: 'step', step, groups, chunks, loss, adam, ...numbers });
    const entry = this.#log.ahead.find((candidate) => candidate.step === step);
    if (!entry) throw new RangeError(`step ${step} is not in the journal`);
    return entry;
  }

  async #forward(plan: Plan): Promise<Submission> {
    this.#working = plan.step;
    const entry = await this.#numbered(plan);
    const model = await this.#ready();
    const chunks = await this.#parts.journal.payload(entry.step, entry.chunks);
    const tickets: Ticket[] = [];
    for (const [index, data] of chunks.entries()) {
      await this.#assertWriter();
      const pass = { seq: entry.from + index, data, loss: entry.loss, forwardOnly: false };
      tickets.push(await model.submitPass(pass));
    }
    const meter = new GapMeter();
    let loss: number | null = 0;
    for (const [index, ticket] of tickets.entries()) {
      const data = chunks[index] ?? [];
      const passed = await model.passed(ticket);
      meter.add(logprobsOf(passed, data), data);
      const part = lossOf(passed);
      loss = loss === null || part === null ? null : loss + part;
    }
    const { guard } = this.#parts;
    if (guard.on === 'every' || entry.step === 1) assertOnPolicy(meter.gap, guard.largestGap);
    this.#open = entry;
    const datums = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    return { step: entry.step, groupIds: entry.groups, datums, chunks: chunks.length, loss, gap: meter.gap };
  }

  async #optimise(entry: StepEntry): Promise<Record<string, number>> {
    this.#working = entry.step;
    const model = await this.#ready();
    const metrics = await model.optimise(entry.to, entry.adam);
    assertMetrics(metrics);
    await this.#parts.journal.append({ kind: 'stepped', step: entry.step });
    this.#open = undefined;
    return metricsOf(metrics);
  }

  async #announce(what: Pick<OperationEntry, 'operation' | 'name' | 'sequences'>): Promise<OperationEntry> {
    const model = await this.#ready();
    const { seq, position } = this.#log;
    const place = { model: model.id, seq: seq + 1, step: position };
    await this.#parts.journal.append({ kind: 'operation', ...what, ...place });
    const { pending } = this.#log;
    if (!pending) throw new RangeError('the operation is not in the journal');
    return pending;
  }

  async #saved({ operation, seq, name = '' }: OperationEntry): Promise<string> {
    const model = await this.#ready();
    const path = await model.save(operation === 'save' ? 'weights' : 'sampler', seq, name);
    await this.#parts.journal.append({ kind: 'done', seq, path });
    await this.#parts.journal.forgetCovered();
    return path;
  }

  async #scored({ seq, sequences = [] }: OperationEntry): Promise<number[][]> {
    const model = await this.#ready();
    const data = sequences.map(scoreDatum);
    const ticket = await model.submitPass({ seq, data, loss: DEFAULT_LOSS, forwardOnly: true });
    const logprobs = logprobsOf(await model.passed(ticket), data);
    await this.#parts.journal.append({ kind: 'done', seq });
    return logprobs;
  }

  async #assertWriter(): Promise<void> {
    const { lease, options } = this.#parts;
    if (!(await lease.isHeld())) throw new ConsortError('trainer_lease_lost', [options.run, lease.token]);
  }
}
