/** What a request can be expected to take, before it runs: that much is reserved of its key's limits. */
import type { Member } from '../../contract/plan.ts';
import { optionsFor, type Catalog, type System } from '../catalog.ts';
import { bytesOf } from '../protocols/room.ts';

/** As `room.ts` counts: English has about 4 bytes a token, Chinese about 3, code less than English. */
const BYTES_PER_TOKEN = 3;
/** Expected of a call whose request sets no limit. */
const ANSWER_TOKENS = 2_048;

export interface Expected {
  readonly inputTokens: number;
  readonly costMicros: number;
}

/** Bytes of all texts in a body, images and other data left out. */
function textBytes(value: unknown): number {
  if (typeof value === 'string') return value.startsWith('data:') ? 0 : bytesOf(value);
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce<number>((sum, one) => sum + textBytes(one), 0);
}

function numberIn(body: Readonly<Record<string, unknown>>, ...fields: readonly string[]): number | undefined {
  return fields.map((field) => body[field]).find((value) => typeof value === 'number');
}

/** The plan's shape; a request that asks for what the system refuses is refused later. */
function shapeOf({ protocol, options, pool }: System, consort: Readonly<Record<string, unknown>>) {
  const coalition = consort['coalition'];
  const members = Array.isArray(coalition)
    ? pool.members.filter(({ alias }) => coalition.includes(alias))
    : pool.members;
  const size = pool.merges ? 1 : Math.max(1, members.length);
  try {
    const asked = consort['options'];
    const wanted = typeof asked === 'object' ? optionsFor(protocol, { ...options, ...asked }) : options;
    return { size, shape: protocol.describe(wanted, size) };
  } catch {
    return { size, shape: protocol.describe(options, size) };
  }
}

const most = (members: readonly Member[], price: keyof Member['price']) =>
  Math.max(0, ...members.map((member) => member.price[price]));

/**
 * An upper estimate: every call at the price of the dearest member, with an answer as long as the request allows, or of
 * 2,048 tokens, and all calls after the first round reading the answers of everybody.
 *
 * @param body as sent to any route that runs models; only its texts, limits and the `consort` field are looked at
 */
export function expectedOf(body: Readonly<Record<string, unknown>>, { systems }: Catalog): Expected {
  const prompt = Math.ceil(textBytes({ ...body, consort: undefined }) / BYTES_PER_TOKEN);
  const system = systems.get(String(body['model']));
  if (!system) return { inputTokens: prompt, costMicros: 0 };
  const consort = typeof body['consort'] === 'object' ? { ...body['consort'] } : {};
  const { size, shape } = shapeOf(system, consort);
  const limits = ['max_completion_tokens', 'max_tokens', 'max_output_tokens'];
  const answer = numberIn(body, ...limits) ?? ANSWER_TOKENS;
  const runs = numberIn(body, 'n') ?? 1;
  const first = Math.min(shape.calls, size);
  const inputTokens = shape.calls * prompt + (shape.calls - first) * size * answer;
  const { members } = system.pool;
  const inputMicros = (inputTokens * most(members, 'inputMicros')) / 1e6;
  const outputMicros = (shape.calls * answer * most(members, 'outputMicros')) / 1e6;
  return {
    inputTokens: runs * shape.calls * prompt,
    costMicros: Math.ceil(runs * (inputMicros + outputMicros)),
  };
}
