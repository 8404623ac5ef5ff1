/** Who reads whom: the named graphs of a structured interaction, and which of their nodes an answer depends on. */

/** For each node the nodes that it reads, ascending and without itself. */
export type Reading = readonly (readonly number[])[];

function among(n: number, isEdge: (reader: number, read: number) => boolean): Reading {
  const nodes = Array.from({ length: n }, (_, index) => index);
  return nodes.map((reader) => nodes.filter((read) => read !== reader && isEdge(reader, read)));
}

const parentOf = (node: number) => Math.floor((node - 1) / 2);

/** All of them are symmetric: who is read reads, too. */
export const TOPOLOGIES = {
  /** Each reads its neighbours in a line. */
  chain: (n: number) => among(n, (a, b) => Math.abs(a - b) === 1),
  /** A binary heap: each reads its parent and its children. */
  tree: (n: number) => among(n, (a, b) => parentOf(a) === b || parentOf(b) === a),
  /** The first reads all, and all read the first. */
  star: (n: number) => among(n, (a, b) => a === 0 || b === 0),
  /** As a chain, closed. */
  circle: (n: number) => among(n, (a, b) => (a + 1) % n === b || (b + 1) % n === a),
  /** Each reads all others. */
  complete: (n: number) => among(n, () => true),
} as const;

/**
 * The nodes whose answers of now can reach the answerer in `hops` rounds from now, ascending: itself, whom it reads,
 * whom these read, and so on.
 */
export function ancestors(reading: Reading, answerer: number, hops: number): number[] {
  const found = new Set([answerer]);
  for (let hop = 0; hop < hops; hop++) {
    for (const read of Array.from(found, (node) => reading[node] ?? []).flat()) found.add(read);
  }
  return [...found].toSorted((a, b) => a - b);
}
