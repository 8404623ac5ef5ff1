/** What is wrong with a value, by the compiled schema that it does not fit: the first fault, with field, value and rule. */
import { ConsortError } from '../contract/errors.ts';

/** The value at a JSON pointer. */
function valueAt(root: unknown, pointer: string): unknown {
  let value = root;
  for (const step of pointer.split('/').slice(1)) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Object.entries(value).find(([name]) => name === step.replaceAll('~1', '/'))?.[1];
  }
  return value;
}

/** Long values are cut, so that an error never echoes a whole prompt. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'missing';
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

/** More items than any list of a schema may have. */
const HEAD_ITEMS = 5000;

/** The value with its lists cut: to explain a fault takes time squared in the length of a list with duplicates. */
function headOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, HEAD_ITEMS).map(headOf);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, headOf(field)]));
}

interface Fault {
  readonly instancePath: string;
  readonly keyword: string;
  readonly message: string;
  readonly params: object;
}

/**
 * A union reports the faults of each branch. The branch that was meant is the one whose constants fit: something is
 * missing in it, and no constant is wrong.
 */
function meant(faults: readonly Fault[]): readonly Fault[] {
  const own = faults.find(({ keyword }, index) => {
    const next = faults[index + 1]?.keyword;
    return keyword === 'required' && next !== undefined && next !== 'const';
  });
  return own ? [own] : faults;
}

function ruleOf(faults: readonly Fault[]): string {
  const constants = faults
    .filter(({ keyword }) => keyword === 'const')
    .flatMap(({ params }): unknown[] => Object.values(params));
  if (constants.length > 0) return `must be one of ${[...new Set(constants)].join(', ')}`;
  const rules = faults.filter(({ keyword }) => keyword !== 'anyOf').map(({ message }) => message);
  return [...new Set(rules)].join(' or ').replace('schema is false', 'is not a known field');
}

/** A compiled schema, as far as it can tell what is wrong. */
export interface Checked {
  readonly Errors: (value: unknown) => readonly Fault[];
}

/**
 * @param value does not fit the schema
 * @param at where the value stands in the body, when it is not the body
 */
export function faultOf(
  validator: Checked,
  value: unknown,
  at: readonly (string | number)[] = [],
): ConsortError {
  const inHead = validator.Errors(headOf(value));
  const faults = meant(inHead.length > 0 ? inHead : validator.Errors(value));
  // The deepest path is the most telling: a union reports itself too.
  const depth = (path: string) => path.split('/').length;
  const path =
    faults.map(({ instancePath }) => instancePath).toSorted((a, b) => depth(b) - depth(a))[0] ?? '';
  const within = path.slice(1).replaceAll('/', '.').replaceAll('~1', '/');
  const field = [...at, ...(within === '' ? [] : [within])].join('.') || 'body';
  const rule = ruleOf(faults.filter(({ instancePath }) => instancePath === path));
  const found = path === '' ? '' : `, got ${shown(valueAt(value, path))}`;
  return new ConsortError('invalid_request', [field, `${rule}${found}`], { param: field });
}
