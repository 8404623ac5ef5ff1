/**
 * Options that name members. They are marked in the schema, so that a name that the pool does not have is found in
 * every protocol's options by one walk, and never gives a default in silence.
 */
import Type, { type Static, type TArray, type TRecord, type TSchema, type TString } from 'typebox';

const MARK = 'consortNames';

/** The alias of a member of the pool. */
export const MemberAlias = Type.String({ [MARK]: 'value' });

interface Words<T> {
  readonly description: string;
  readonly default?: T;
}

/** A list of members' aliases; nobody unless it says otherwise. */
export function aliasList(description: string): TArray<TString> {
  return Type.Array(MemberAlias, { default: [], description });
}

/** A record whose keys are members' aliases. */
export function byAlias<T extends TSchema>(
  value: T,
  words: Words<Record<string, Static<T>>>,
): TRecord<string, T> {
  return Type.Record(Type.String(), value, { ...words, [MARK]: 'keys' });
}

/** A place in options, and the name there that no member bears. */
export interface Stranger {
  readonly path: readonly string[];
  readonly alias: string;
}

interface Node {
  readonly [MARK]?: unknown;
  readonly properties?: Readonly<Record<string, Node>>;
  readonly patternProperties?: Readonly<Record<string, Node>>;
  readonly items?: Node;
  readonly anyOf?: readonly Node[];
}

/** The first name in options that fit their schema and are not of the pool. */
export function strangerIn(
  schema: TSchema,
  options: unknown,
  aliases: readonly string[],
): Stranger | undefined {
  return [...strangers(schema, options, aliases, [])][0];
}

function* strangers(
  node: Node,
  value: unknown,
  aliases: readonly string[],
  path: readonly string[],
): Generator<Stranger> {
  if (typeof value === 'string') {
    if (node[MARK] === 'value' && !aliases.includes(value)) yield { path, alias: value };
    // A word of the protocol's own may stand where a name may stand, too.
    if (node.anyOf?.some((one) => 'const' in one && one['const'] === value)) return;
  }
  for (const branch of node.anyOf ?? []) yield* strangers(branch, value, aliases, path);
  if (typeof value !== 'object' || value === null) return;
  const ofRecord = Object.values(node.patternProperties ?? {})[0];
  for (const [key, item] of Object.entries(value)) {
    const at = [...path, key];
    if (node[MARK] === 'keys' && !aliases.includes(key)) yield { path: at, alias: key };
    const below = Array.isArray(value) ? node.items : (node.properties?.[key] ?? ofRecord);
    if (below) yield* strangers(below, item, aliases, at);
  }
}
