/** Reads compound units: `km/h`, `kg*m^2/s^2`, `J/(mol K)`, `miles per hour`, `square metres`. */
import { multiply, ONE, power, rational } from './rational.ts';
import { unitNamed, type Dimensions, type Unit } from './unit-table.ts';

const TOKEN =
  /\s*(\*\*|[*/()]|\^ ?\{ ?[-+]?\d{1,2} ?\}|\^ ?[-+]?\d{1,2}|[A-Za-z\u03bc\u03a9\u00b0\u00c5]+|[-+]?\d{1,2})/y;
const POWER_WORDS: Readonly<Record<string, number>> = {
  square: 2,
  sq: 2,
  cubic: 3,
  cu: 3,
  squared: 2,
  cubed: 3,
};
const LONGEST = 64;
const ZERO = rational(0n);

/** The unit that the whole of `text` names, or undefined. */
export function parseUnit(text: string): Unit | undefined {
  const whole = text.trim();
  if (whole === '' || whole.length > LONGEST) return undefined;
  const plain = unitNamed(whole);
  if (plain !== undefined) return plain;
  const tokens = tokenise(whole);
  if (tokens === undefined) return undefined;
  const reader = new UnitReader(tokens);
  const unit = reader.product();
  return reader.atEnd ? unit : undefined;
}

/** Whether two units measure the same thing. */
export function sameDimensions(a: Dimensions, b: Dimensions): boolean {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every((name) => (a[name] ?? 0) === (b[name] ?? 0));
}

/** The dimensions as `kg m^2 s^-2`, in one fixed order. */
export function formatDimensions(dimensions: Dimensions): string {
  const factors = Object.entries(dimensions).filter(([, exponent]) => exponent !== 0);
  factors.sort(([a], [b]) => (a < b ? -1 : 1));
  return factors.map(([name, exponent]) => (exponent === 1 ? name : `${name}^${exponent}`)).join(' ');
}

function tokenise(text: string): string[] | undefined {
  const tokens: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const match = TOKEN.exec(text);
    if (match === null) return undefined;
    tokens.push((match[1] ?? '').replace(/[{} ]/g, ''));
  }
  return tokens;
}

/** Recursive descent over the tokens: product := factor (('*' | '/' | 'per' | nothing) factor)*. */
class UnitReader {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
  }

  get atEnd(): boolean {
    return this.#at === this.#tokens.length;
  }

  product(): Unit | undefined {
    let unit = this.#factor();
    while (unit !== undefined && !this.atEnd && this.#peek() !== ')') {
      const operator = this.#peek();
      const inverse = operator === '/' || operator === 'per';
      if (inverse || operator === '*') this.#at += 1;
      const next = this.#factor();
      unit = next === undefined ? undefined : combine(unit, next, inverse ? -1 : 1);
    }
    return unit;
  }

  #factor(): Unit | undefined {
    const token = this.#tokens[this.#at++];
    if (token === undefined) return undefined;
    if (token === '(') {
      const inner = this.product();
      return this.#tokens[this.#at++] === ')' ? this.#raised(inner, 1) : undefined;
    }
    const before = /^(?:square|sq|cubic|cu)$/i.test(token) ? POWER_WORDS[token.toLowerCase()] : undefined;
    const name = before === undefined ? token : this.#tokens[this.#at++];
    return this.#raised(name === undefined ? undefined : unitNamed(name), before ?? 1);
  }

  #raised(unit: Unit | undefined, exponent: number): Unit | undefined {
    if (unit === undefined) return undefined;
    const token = this.#peek() ?? '';
    const after = POWER_WORDS[token.toLowerCase()];
    if (token === '**') this.#at += 1;
    const digits = /^\^?([-+]?\d+)$/.exec(this.#peek() ?? '');
    if (after !== undefined || digits !== null) this.#at += 1;
    const raised = exponent * (after ?? Number(digits?.[1] ?? 1));
    return combine({ dimensions: {}, scale: ONE, offset: ZERO }, unit, raised);
  }

  #peek(): string | undefined {
    return this.#tokens[this.#at];
  }
}

function combine(unit: Unit, factor: Unit, exponent: number): Unit {
  const dimensions: Record<string, number> = { ...unit.dimensions };
  for (const [name, value] of Object.entries(factor.dimensions)) {
    dimensions[name] = (dimensions[name] ?? 0) + value * exponent;
  }
  return { dimensions, scale: multiply(unit.scale, power(factor.scale, exponent)), offset: ZERO };
}
