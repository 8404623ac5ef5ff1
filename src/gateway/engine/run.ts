/** Runs a plan to its end: protocol, decorated calls, deadline, and one outcome whatever happens. */
import { isAbsent, type Answer, type Call, type Send } from '../../contract/call.ts';
import type { Clock, NewId, RunOptions, RunResult, RunSystem } from '../../contract/capabilities.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Outcome } from '../../contract/outcome.ts';
import type { Message, Part } from '../../contract/part.ts';
import { teamOf, type Plan } from '../../contract/plan.ts';
import type { Task } from '../../contract/task.ts';
import { wholeAnswer } from '../protocols/ask-all.ts';
import type { Protocol, ProtocolContext } from '../protocols/protocol.ts';
import { untilAborted } from './abort.ts';
import { budget, Purse } from './budget.ts';
import { callSeed, chanceFor } from './chance.ts';
import { Course, cutOf } from './course.ts';
import { legible } from './legible.ts';
import { closeBook } from './outcome.ts';
import { record, type CallBook } from './record.ts';
import { startCall } from './reply.ts';
import { resume } from './resume.ts';
import { reuse } from './reuse.ts';
import { upright } from './upright.ts';
import { witness } from './witness.ts';

export interface EngineParts {
  readonly protocols: readonly Protocol[];
  /** The decorated way to the upstreams: retry over send. */
  readonly send: Send;
  /** Lets other models stand in, in live runs. */
  readonly fallback?: (next: Send) => Send;
  readonly clock: Clock;
  readonly newId: NewId;
  /** Keys the marks and orders that must not be guessed. */
  readonly secret: string;
  /** Takes the finished outcome; what it returns is waited for before the last byte leaves. Must not fail. */
  readonly onOutcome: (outcome: Outcome) => void | Promise<unknown>;
}

/** The controllers of one run: its own deadline and client, and all calls under way. */
class Lifeline {
  readonly #calls = new Set<AbortController>();
  readonly #underWay = new Set<Promise<unknown>>();
  #reason: ConsortError | undefined;
  #isOver = false;

  get reason(): ConsortError | undefined {
    return this.#reason;
  }

  open(): AbortController {
    const control = new AbortController();
    if (this.#isOver) control.abort(this.#reason ?? new ConsortError('client_gone'));
    else this.#calls.add(control);
    return control;
  }

  abort(reason: ConsortError): void {
    this.#isOver = true;
    this.#reason ??= reason;
    for (const control of this.#calls) control.abort(reason);
    this.#calls.clear();
  }

  release(control: AbortController): void {
    this.#calls.delete(control);
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Keeps a call until its answer, so that the run ends after all of its calls. */
  follow(control: AbortController, answer: Promise<unknown>): void {
    this.#underWay.add(answer);
    void answer.then(() => {
      this.#underWay.delete(answer);
      this.release(control);
    });
  }

  /** Waits for a slow client, but no longer than the run lasts. */
  async during(work: Promise<void>): Promise<void> {
    const control = this.open();
    await untilAborted(work, control.signal).catch(() => undefined);
    this.release(control);
  }

  /** Whatever is still under way has no listener any more. An error is made only for a call that needs one. */
  async end(): Promise<void> {
    this.#isOver = true;
    if (this.#calls.size > 0) this.abort(new ConsortError('client_gone'));
    await Promise.all(this.#underWay);
  }
}

/** One run while it lasts: everything its calls share. */
interface Run {
  readonly book: CallBook;
  readonly life: Lifeline;
  readonly course: Course;
  readonly context: ProtocolContext;
  /** Which call said a message that calls tools. */
  readonly callers: ReadonlyMap<Message, Call>;
}

function openRun(parts: EngineParts, plan: Plan, task: Task, options: RunOptions): Run {
  const { clock } = parts;
  const life = new Lifeline();
  const purse = new Purse(plan.budget);
  const trace = options.trace ? options.emit : undefined;
  const book: CallBook = { records: [], startedAt: clock.elapsed(), clock, ...(trace && { trace }) };
  let send = upright(task.passThrough !== undefined)(parts.send);
  // A measurement is of the coalition that was planned, and of nobody else.
  const isLive = plan.design === 'live' && plan.parent === undefined && !options.share;
  if (parts.fallback && isLive) send = parts.fallback(send);
  send = budget(purse)(send);
  if (options.share) send = reuse(options.share, plan.replicate)(send);
  // What passes through is between the client and its model.
  if (!task.passThrough) send = legible(send);
  send = record(book)(send);
  if (options.onCall) send = witness(options.onCall)(send);
  const callers = new Map<Message, Call>();
  const ask = (asked: Call) => {
    const control = life.open();
    const prepared = options.prepare?.(asked) ?? asked;
    const call = plan.seed === '' ? prepared : withSeed(plan, prepared);
    const reply = startCall(call, send, control, options.stream);
    life.follow(control, reply.answer);
    void reply.answer.then((result) => {
      if (!isAbsent(result) && result.message.toolCalls) callers.set(result.message, call);
    });
    return reply;
  };
  const left = () => ({
    calls: life.isOver ? 0 : purse.callsLeft,
    ms: life.isOver ? 0 : Math.max(0, plan.budget.deadlineMs - (clock.elapsed() - book.startedAt)),
  });
  const random = chanceFor(parts.secret, plan);
  // Coalitions that share calls need them all.
  const course = new Course((share) => !options.share && random('early-exit') < share);
  const { offer, settle } = course;
  return { book, life, course, callers, context: { ask, random, left, offer, settle } };
}

function withSeed(plan: Plan, call: Call): Call {
  return { ...call, sampling: { ...call.sampling, seed: callSeed(plan, call) } };
}

export function createRunSystem(parts: EngineParts): RunSystem {
  const protocols = new Map(parts.protocols.map((protocol) => [protocol.name, protocol]));
  return async (plan: Plan, task: Task, options: RunOptions): Promise<RunResult> => {
    const protocol = protocols.get(plan.protocol.name);
    if (!protocol) throw new TypeError(`plan with unknown protocol ${plan.protocol.name}`);
    const { clock } = parts;
    const id = plan.id;
    const startedAt = clock.now();
    const run = openRun(parts, plan, task, options);
    const { book, life, course, context } = run;
    const leave = () => {
      const reason: unknown = options.signal.reason;
      life.abort(ConsortError.is(reason) ? reason : new ConsortError('client_gone'));
    };
    if (options.signal.aborted) leave();
    else options.signal.addEventListener('abort', leave, { once: true });
    const { deadlineMs } = plan.budget;
    const timer = setTimeout(() => life.abort(new ConsortError('deadline', [deadlineMs])), deadlineMs);

    const emit = (part: Part) => {
      if (part.type !== 'opaque') course.firstPartMs ??= clock.elapsed() - book.startedAt;
      return options.emit?.(part);
    };
    const steps = options.resume
      ? resume(options.resume, protocol, plan, task, context)
      : protocol.run(task, teamOf(plan), plan.options, context);
    const ended = await conduct(steps, run, emit);
    const { answer } = ended;
    let { error } = ended;
    clearTimeout(timer);
    options.signal.removeEventListener('abort', leave);
    if (!error && life.reason?.code === 'client_gone') error = life.reason;
    await life.end();

    const durationMs = clock.elapsed() - book.startedAt;
    const calls = book.records;
    const { firstPartMs, earlyExit } = course;
    const cutShort = ended.cutShort ?? (error ? undefined : cutOf(life.reason, calls, true));
    const times = { startedAt, firstPartMs, durationMs };
    const outcome = closeBook({ id, plan, task, calls, answer, error, cutShort, earlyExit, ...times });
    await parts.onOutcome(outcome);
    const toolCall = answer && run.callers.get(answer.message);
    return {
      outcome,
      ...(answer && { answer }),
      ...(toolCall && { toolCall }),
      ...(error && { error }),
    };
  };
}

interface Ended {
  readonly answer?: Answer;
  readonly error?: ConsortError;
  readonly cutShort?: Outcome['cutShort'];
}

/** Runs a protocol to its answer, to the best so far when it was cut short and nothing has been heard, or to an error. */
async function conduct(
  protocol: AsyncGenerator<Part, Answer>,
  { book, life, course }: Run,
  emit: (part: Part) => void | Promise<void>,
): Promise<Ended> {
  try {
    return { answer: await drive(protocol, emit, life) };
  } catch (thrown) {
    const error = life.reason ?? ConsortError.from(thrown);
    const cutShort = cutOf(error, book.records, false);
    if (!course.best || !cutShort || course.firstPartMs !== null) return { error };
    const { slot, answer } = course.best;
    return { answer: await drive(wholeAnswer(slot, answer), emit, life), cutShort };
  }
}

/** Pulls the protocol to its end, waiting whenever the client asks to and the run is not over. */
async function drive(
  run: AsyncGenerator<Part, Answer> | Generator<Part, Answer>,
  emit: (part: Part) => void | Promise<void>,
  life: Lifeline,
): Promise<Answer> {
  for (;;) {
    const step = await run.next();
    if (step.done) return step.value;
    const wait = emit(step.value);
    if (wait) await life.during(wait);
  }
}
