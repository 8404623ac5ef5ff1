/**
 * tinker: any server of the Tinker training protocol, over HTTP (docs/trainers.md lists those that were tried).
 *
 * Idea: the server owns forward, backward, optimiser and sharding, and is handed token ids, behaviour log-probs and
 * advantages; groups, rewards and credit are made here. Cost: one pipeline bubble a step, since the results of all
 * passes are checked before the optimiser moves. Fails when: the server's reduction is unknown (refused at start),
 * trainer and serving fleet disagree (halted at step 1), another writer holds the run (fenced).
 *
 * Never sample from the trainer: SkyRL's JAX backend loads the sampled checkpoint into the slot that is being trained.
 */
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { ConsortError } from '../../contract/errors.ts';
import { ARCHIVE_LIMITS, unpack, type ArchiveLimits } from './archive.ts';
import { CHUNK_LIMITS, type ChunkLimits } from './chunks.ts';
import { selfTest, type Assumed } from './dialect.ts';
import { download } from './download.ts';
import { LARGEST_GAP } from './guards.ts';
import { TIMEOUTS, TrainerHttp, type Timeouts } from './http.ts';
import { Journal } from './journal.ts';
import { checkAdapter } from './peft.ts';
import { TrainingRun, type Guard } from './training-run.ts';
import type {
  Batch,
  Dialect,
  ExportedPolicy,
  Probe,
  RunOptions,
  RunState,
  SavedState,
  StepDone,
  Submission,
  TrainerPort,
  WriterLease,
} from './trainer.ts';
import { Capabilities, Reader } from './wire.ts';

export interface TinkerOptions {
  /** Without the protocol's prefix: `http://trainer:8000`. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  /** Where the journals of the runs are kept; one folder a run. */
  readonly directory: string;
  readonly timeouts?: Partial<Timeouts>;
  readonly chunks?: Partial<ChunkLimits>;
  readonly archive?: Partial<ArchiveLimits>;
  /** Hosts, with port where it is not the usual one, that the server may send a download to. */
  readonly archiveHosts?: readonly string[];
  readonly guard?: Partial<Guard>;
  /** For servers that tell no gradient norm, so that the self-test cannot judge them: what is known of them. */
  readonly assume?: Assumed;
  /** Ends whatever is under way, as a crash would. */
  readonly signal?: AbortSignal;
  /** @default 10000, as the servers' own client does */
  readonly heartbeatMs?: number;
}

const NAME = /^[A-Za-z0-9_-]{1,128}$/;
const capabilitiesReader = new Reader(Capabilities);

interface Running {
  readonly run: TrainingRun;
  readonly journal: Journal;
  readonly options: RunOptions;
}

export class TinkerTrainer implements TrainerPort {
  readonly #options: TinkerOptions;
  readonly #http: TrainerHttp;
  #running: Running | undefined;
  /** What the self-test found at the last `ensureRun`. */
  #dialect: Dialect | undefined;
  /** One operation at a time: numbers are given in order. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: TinkerOptions) {
    this.#options = options;
    this.#http = new TrainerHttp({ ...options, timeouts: { ...TIMEOUTS, ...options.timeouts } });
  }

  get dialect(): Dialect | undefined {
    return this.#dialect;
  }

  async probe(signal?: AbortSignal): Promise<Probe> {
    await this.#http.ask('healthz', undefined, signal);
    const reply = await this.#http.ask('get_server_capabilities', undefined, signal);
    const { supported_models: models } = capabilitiesReader.read(reply, 'get_server_capabilities');
    return { baseModels: models.flatMap((model) => model.model_name ?? model.model_id ?? []) };
  }

  ensureRun(options: RunOptions, lease: WriterLease): Promise<RunState> {
    return this.#exclusive(async () => {
      assertName(options.run);
      await this.#stop();
      const directory = join(this.#options.directory, options.run);
      const journal = await Journal.open(directory, options.run, lease.token);
      try {
        await claim(journal, options);
        const dialect = await selfTest(this.#http, options, this.#options.assume);
        this.#dialect = dialect;
        const run = new TrainingRun({
          http: this.#http,
          options,
          lease,
          journal,
          dialect,
          limits: { ...CHUNK_LIMITS, ...this.#options.chunks },
          guard: { largestGap: LARGEST_GAP, on: 'first', ...this.#options.guard },
          heartbeatMs: this.#options.heartbeatMs ?? 10_000,
        });
        this.#running = { run, journal, options };
        await run.recover();
        return run.state;
      } catch (error) {
        if (this.#running) await this.#stop();
        else await journal.close();
        throw error;
      }
    });
  }

  submitGroups(batch: Batch): Promise<Submission | undefined> {
    return this.#exclusive(() => this.#run.run.submit(batch));
  }

  step(): Promise<StepDone> {
    return this.#exclusive(() => this.#run.run.step());
  }

  score(sequences: readonly (readonly number[])[]): Promise<number[][]> {
    return this.#exclusive(() => this.#run.run.score(sequences));
  }

  saveState(): Promise<SavedState> {
    return this.#exclusive(async () => {
      const { run } = this.#run;
      const step = run.position;
      const path = await run.save('save', `step-${String(step).padStart(8, '0')}`);
      return { step, path };
    });
  }

  exportPolicy(name: string, directory: string): Promise<ExportedPolicy> {
    return this.#exclusive(async () => {
      assertName(name);
      const { run, options } = this.#run;
      const step = run.position;
      const path = await run.save('export', name);
      const parent = dirname(directory);
      await mkdir(parent, { recursive: true });
      // Beside its place, so that the rename is one move: nobody sees half an adapter.
      const workshop = await mkdtemp(join(parent, `.${basename(directory)}-`));
      try {
        const archive = await this.#fetch(path, name, join(workshop, 'archive'));
        const files = join(workshop, 'files');
        await mkdir(files);
        const limits = { ...ARCHIVE_LIMITS, ...this.#options.archive };
        const paths = await unpack(join(workshop, 'archive'), files, limits);
        const folder = join(files, folderOf(paths));
        const { rank, tensors, targetModules } = await checkAdapter(folder, options.rank, step === 0);
        await rename(folder, directory);
        return { name, step, directory, ...archive, rank, tensors, targetModules };
      } finally {
        await rm(workshop, { recursive: true, force: true });
      }
    });
  }

  async close(): Promise<void> {
    await this.#exclusive(() => this.#stop());
    await this.#http.close();
  }

  async #fetch(path: string, name: string, file: string) {
    const { archive, apiKey, archiveHosts = [], baseUrl } = this.#options;
    const model = /^tinker:\/\/(?<model>[^/]+)\//.exec(path)?.groups?.['model'];
    if (model === undefined) throw new ConsortError('trainer_malformed', ['save_weights_for_sampler', path]);
    const { resultMs, pauseMs } = this.#http.timeouts;
    const place = `training_runs/${encodeURIComponent(model)}/checkpoints/${name}/archive`;
    return download(
      {
        url: `${baseUrl.replace(/\/+$/, '')}/api/v1/${place}`,
        ...(apiKey !== undefined && { apiKey }),
        allowedHosts: archiveHosts,
        maxBytes: archive?.maxBytes ?? ARCHIVE_LIMITS.maxBytes,
        timeoutMs: resultMs,
        pauseMs,
        signal: this.#http.signal,
      },
      file,
    );
  }

  get #run(): Running {
    if (!this.#running) throw new RangeError('ensureRun comes first');
    return this.#running;
  }

  async #stop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    running?.run.close();
    await running?.journal.close();
  }

  #exclusive<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work, work);
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}

function assertName(name: string): void {
  if (!NAME.test(name)) throw new RangeError(`${name} is no name: letters, digits, - and _, at most 128`);
}

/** Begins the journal, or sees that it is of the same run. @throws trainer_journal */
async function claim(journal: Journal, { run, baseModel, rank, seed }: RunOptions): Promise<void> {
  const begun = journal.log.run;
  if (!begun) return journal.append({ kind: 'run', run, baseModel, rank, seed });
  if (begun.run === run && begun.baseModel === baseModel && begun.rank === rank && begun.seed === seed)
    return;
  const was = `${begun.run} on ${begun.baseModel}, rank ${begun.rank}, seed ${begun.seed}`;
  throw new ConsortError('trainer_journal', [run, `it is of ${was}`]);
}

/** The folder of the adapter inside an archive: its root, or the one that it has. */
function folderOf(paths: readonly string[]): string {
  const config = paths.find((path) => basename(path) === 'adapter_config.json');
  if (config === undefined) throw new ConsortError('trainer_archive', ['there is no adapter_config.json']);
  return dirname(config);
}
