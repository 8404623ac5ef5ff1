/** What the pages of options read of a JSON schema, and how they write the type and the bounds of a field. */
export interface Schema {
  readonly type?: string;
  readonly const?: string | number | boolean;
  readonly default?: unknown;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
}

function limits({ minimum, exclusiveMinimum, maximum }: Schema): string {
  if (minimum !== undefined && maximum !== undefined) return `, ${minimum} to ${maximum}`;
  if (minimum !== undefined) return `, at least ${minimum}`;
  if (exclusiveMinimum !== undefined) return `, more than ${exclusiveMinimum}`;
  return maximum === undefined ? '' : `, at most ${maximum}`;
}

export function typeOf(schema: Schema): string {
  if (schema.const !== undefined) return `\`${String(schema.const)}\``;
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(' or ');
  if (schema.type === 'array')
    return schema.items?.properties ? 'list' : `list of ${typeOf(schema.items ?? {})}`;
  const [values] = Object.values(schema.patternProperties ?? {});
  if (values?.type) return `object of ${typeOf(values)}`;
  return `${schema.type ?? 'anything'}${limits(schema)}`;
}
