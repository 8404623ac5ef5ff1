/** Cutting a step's datums into requests that a server takes: few enough, and small enough. Order is kept. */
import type { WireDatum } from './wire.ts';

export interface ChunkLimits {
  readonly maxDatums: number;
  /** Of the datums as JSON text. */
  readonly maxBytes: number;
}

/** What the hosted service allows; others allow more. */
export const CHUNK_LIMITS: ChunkLimits = { maxDatums: 1024, maxBytes: 5_000_000 };

/** @throws RangeError when one datum alone is too large */
export function chunksOf(data: readonly WireDatum[], limits: ChunkLimits): WireDatum[][] {
  const chunks: WireDatum[][] = [];
  let chunk: WireDatum[] = [];
  let bytes = 0;
  for (const datum of data) {
    const size = Buffer.byteLength(JSON.stringify(datum)) + 1;
    if (size > limits.maxBytes) {
      throw new RangeError(
        `a datum of ${datum.model_input.chunks[0].tokens.length} tokens has ${size} bytes`,
      );
    }
    if (chunk.length === limits.maxDatums || (chunk.length > 0 && bytes + size > limits.maxBytes)) {
      chunks.push(chunk);
      chunk = [];
      bytes = 0;
    }
    chunk.push(datum);
    bytes += size;
  }
  if (chunk.length > 0) chunks.push(chunk);
  return chunks;
}
