/** The processes of one deployment, each of which can be killed and comes back. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from '../../test/support/redis.ts';
import type { Served, Site } from '../../test/support/serve.ts';
import { chance } from './chance.ts';
import type { TrainingSide } from './training.ts';

interface Member {
  readonly name: string;
  start(): Promise<void>;
  end(signal: NodeJS.Signals): Promise<void>;
  /** Whether it has done something since it was started; one that has not is not killed again. */
  readonly hasWorked?: () => boolean;
  /** Of a gateway that runs. */
  readonly gateway?: () => Served | undefined;
}

export interface Kill {
  readonly name: string;
  /** From the signal until it has said that it is ready again. */
  readonly backMs: number;
}

/** Between two kills, in ms: the shortest and the longest. */
export type Pause = readonly [number, number];

const SCORER = 'scorer';

const turn = ({ name }: Member, seed: number, round: number) => chance('turn', seed, round, name);

export class Party {
  readonly kills: Kill[] = [];
  readonly #members: readonly Member[];

  private constructor(members: readonly Member[]) {
    this.#members = members;
  }

  /** Starts two gateways, a scorer and, if there is something to train, a learner on a Redis that runs. */
  static async start(site: Site, redis: RedisServer, training?: TrainingSide): Promise<Party> {
    const gateways = ['gateway 1', 'gateway 2'].map((name) => gateway(name, site));
    const started = [...gateways, scorer(site), ...(training ? [learner(site, training)] : [])];
    await Promise.all(started.map((member) => member.start()));
    const store: Member = { name: 'Redis', start: () => redis.start(), end: () => redis.kill() };
    return new Party([...started, store]);
  }

  /** Gateways that take requests now. */
  get gateways(): Served[] {
    return this.#members.flatMap((member) => member.gateway?.() ?? []);
  }

  get names(): string[] {
    return this.#members.map(({ name }) => name);
  }

  /**
   * Kills one after the other and starts each again at once. Each has its turn before any has the next; order and
   * pauses are chance.
   */
  async killFor(durationMs: number, [shortestMs, longestMs]: Pause, seed: number): Promise<void> {
    const until = performance.now() + durationMs;
    for (let count = 0; ; count++) {
      const pauseMs = shortestMs + (longestMs - shortestMs) * chance('pause', seed, count);
      if (performance.now() + pauseMs > until) break;
      await sleep(pauseMs);
      const round = Math.floor(count / this.#members.length);
      const order = this.#members.toSorted((a, b) => turn(a, seed, round) - turn(b, seed, round));
      const victim = order[count % order.length]!;
      if (victim.hasWorked?.() ?? true) await this.#kill(victim);
    }
    await sleep(Math.max(0, until - performance.now()));
  }

  async #kill(victim: Member): Promise<void> {
    const at = performance.now();
    await victim.end('SIGKILL');
    await victim.start();
    this.kills.push({ name: victim.name, backMs: performance.now() - at });
  }

  /** Kills the scorer when nothing comes any more that would make it publish again. */
  async killScorer(): Promise<void> {
    await this.#kill(this.#members.find(({ name }) => name === SCORER)!);
  }

  /** Whether everybody has done something since it was last started. */
  get hasRecovered(): boolean {
    return this.#members.every(({ hasWorked }) => hasWorked?.() ?? true);
  }

  /** Ends the gateways as an operator does, so that what they spooled is pushed, and starts them again. */
  async restartGateways(): Promise<void> {
    const gateways = this.#members.filter((member) => member.gateway);
    for (const member of gateways) await member.end('SIGTERM');
    for (const member of gateways) await member.start();
  }

  /** Ends everything but the store. */
  async end(): Promise<void> {
    for (const member of this.#members) if (member.name !== 'Redis') await member.end('SIGTERM');
  }
}

function gateway(name: string, site: Site): Member {
  let served: Served | undefined;
  return {
    name,
    async start() {
      served = await site.serve();
    },
    async end(signal) {
      const ending = served;
      served = undefined;
      await ending?.kill(signal);
    },
    gateway: () => served,
  };
}

function scorer(site: Site): Member {
  let process: Omit<Served, 'url'> | undefined;
  return {
    name: SCORER,
    async start() {
      process = await site.score();
    },
    end: async (signal) => process?.kill(signal),
  };
}

/** It trains only while it holds the lease of its run, which a killed one keeps for a while. */
function learner(site: Site, training: TrainingSide): Member {
  let process: Omit<Served, 'url'> | undefined;
  let before = 0;
  return {
    name: 'learner',
    async start() {
      before = training.steps().length;
      process = await site.learn();
    },
    end: async (signal) => process?.kill(signal),
    hasWorked: () => training.steps().length > before,
  };
}
