/**
 * A search for the best of many, where looking at one is dear: a walk to the first better neighbour, in an order by
 * chance, and a new start by chance where no neighbour is better. Ours, and simpler than a swarm of particles, which
 * needs positions in between. The same chance gives the same walk.
 */
import type { Random } from '../contract/capabilities.ts';

export interface SearchSpace<P> {
  readonly start: P;
  readonly nextTo: (point: P) => readonly P[];
  readonly draw: (random: Random) => P;
  /** The same for the same point: none is looked at twice. */
  readonly keyOf: (point: P) => string;
}

export interface SearchLimits {
  /** The most points that are looked at, the start included; at least 1. */
  readonly evaluations: number;
  readonly random: Random;
}

export interface Found<P> {
  /** Of several equally good ones the first that was looked at: the start, unless something was better. */
  readonly best: P;
  /**
   * On the data of the search. As the largest of many values that are known with doubt it is too high: measure `best`
   * again on other data.
   */
  readonly value: number;
  /** Of the start. */
  readonly startValue: number;
  /** Points looked at. */
  readonly evaluations: number;
}

/** Draws for a new start that all gave what is known already: then there is hardly anything else. */
const VAIN_DRAWS = 1000;

interface Looked<P> {
  readonly point: P;
  readonly value: number;
}

class Walk<P> {
  readonly #space: SearchSpace<P>;
  readonly #evaluate: (point: P) => Promise<number>;
  readonly #limits: SearchLimits;
  readonly #known = new Set<string>();
  #best: Looked<P> | undefined;

  constructor(space: SearchSpace<P>, evaluate: (point: P) => Promise<number>, limits: SearchLimits) {
    this.#space = space;
    this.#evaluate = evaluate;
    this.#limits = limits;
  }

  get evaluations(): number {
    return this.#known.size;
  }

  get isSpent(): boolean {
    return this.#known.size >= this.#limits.evaluations;
  }

  get best(): Looked<P> | undefined {
    return this.#best;
  }

  async look(point: P): Promise<Looked<P>> {
    this.#known.add(this.#space.keyOf(point));
    const value = await this.#evaluate(point);
    const looked = { point, value };
    if (!this.#best || value > this.#best.value) this.#best = looked;
    return looked;
  }

  /** A neighbour that is better and was not known. */
  async better({ point, value }: Looked<P>): Promise<Looked<P> | undefined> {
    const { keyOf, nextTo } = this.#space;
    const from = keyOf(point);
    const order = nextTo(point)
      .map((next) => ({ next, key: keyOf(next) }))
      .map(({ next, key }) => ({ next, key, place: this.#limits.random(`${from}/${key}`) }))
      .toSorted((a, b) => a.place - b.place);
    for (const { next, key } of order) {
      if (this.isSpent) return undefined;
      if (this.#known.has(key)) continue;
      const looked = await this.look(next);
      if (looked.value > value) return looked;
    }
    return undefined;
  }

  newStart(): P | undefined {
    const { draw, keyOf } = this.#space;
    for (let attempt = 0; attempt < VAIN_DRAWS; attempt++) {
      const point = draw((label) => this.#limits.random(`start/${this.evaluations}/${attempt}/${label}`));
      if (!this.#known.has(keyOf(point))) return point;
    }
    return undefined;
  }
}

/** Looks at one point at a time; rejects when `evaluate` does. */
export async function localSearch<P>(
  space: SearchSpace<P>,
  evaluate: (point: P) => Promise<number>,
  limits: SearchLimits,
): Promise<Found<P>> {
  const walk = new Walk(space, evaluate, limits);
  const start = await walk.look(space.start);
  let at: Looked<P> | undefined = start;
  while (at && !walk.isSpent) {
    const next: Looked<P> | undefined = await walk.better(at);
    if (next) at = next;
    else {
      const drawn = walk.isSpent ? undefined : walk.newStart();
      at = drawn && (await walk.look(drawn));
    }
  }
  const { point, value } = walk.best ?? start;
  return { best: point, value, startValue: start.value, evaluations: walk.evaluations };
}
