/** The units that answers are written in, each as an exact multiple of SI base units. */
import { parseNumber } from './number-grammar.ts';
import { ONE, rational, type Rational } from './rational.ts';

/** Exponents of the base units m, kg, s, A, K, mol, cd, rad, bit. */
export type Dimensions = Readonly<Record<string, number>>;

export interface Unit {
  readonly dimensions: Dimensions;
  /** One of this unit in base units. */
  readonly scale: Rational;
  /** What zero of this unit is in base units: only for temperatures. */
  readonly offset: Rational;
}

type Row = readonly [symbols: string, words: string, scale: string, dimensions: Dimensions];

const ENERGY = { kg: 1, m: 2, s: -2 };
const PRESSURE = { kg: 1, m: -1, s: -2 };
const POWER = { kg: 1, m: 2, s: -3 };

/** Units that take SI prefixes, by symbol (`km`) and by word (`kilometre`). */
const PREFIXABLE: readonly Row[] = [
  ['m', 'meter metre', '1', { m: 1 }],
  ['g', 'gram gramme', '1/1000', { kg: 1 }],
  ['s', 'second sec', '1', { s: 1 }],
  ['A', 'ampere amp', '1', { A: 1 }],
  ['K', 'kelvin', '1', { K: 1 }],
  ['mol', 'mole', '1', { mol: 1 }],
  ['cd', 'candela', '1', { cd: 1 }],
  ['rad', 'radian', '1', { rad: 1 }],
  ['L l', 'liter litre', '1/1000', { m: 3 }],
  ['N', 'newton', '1', { kg: 1, m: 1, s: -2 }],
  ['J', 'joule', '1', ENERGY],
  ['Wh', '', '3600', ENERGY],
  ['eV', 'electronvolt', '1.602176634e-19', ENERGY],
  ['cal', 'calorie', '4.184', ENERGY],
  ['W', 'watt', '1', POWER],
  ['Pa', 'pascal', '1', PRESSURE],
  ['bar', '', '100000', PRESSURE],
  ['Hz', 'hertz', '1', { s: -1 }],
  ['C', 'coulomb', '1', { A: 1, s: 1 }],
  ['V', 'volt', '1', { ...POWER, A: -1 }],
  ['F', 'farad', '1', { kg: -1, m: -2, s: 4, A: 2 }],
  ['\u03a9', 'ohm', '1', { ...POWER, A: -2 }],
  ['S', 'siemens', '1', { kg: -1, m: -2, s: 3, A: 2 }],
  ['Wb', 'weber', '1', { ...ENERGY, A: -1 }],
  ['T', 'tesla', '1', { kg: 1, s: -2, A: -1 }],
  ['H', 'henry', '1', { ...ENERGY, A: -2 }],
  ['lm', 'lumen', '1', { cd: 1 }],
  ['Bq', 'becquerel', '1', { s: -1 }],
  ['M', 'molar', '1000', { mol: 1, m: -3 }],
  ['t', 'tonne', '1000', { kg: 1 }],
  ['b', 'bit', '1', { bit: 1 }],
  ['B', 'byte', '8', { bit: 1 }],
];

const PLAIN: readonly Row[] = [
  ['min', 'minute', '60', { s: 1 }],
  ['h hr', 'hour', '3600', { s: 1 }],
  ['d', 'day', '86400', { s: 1 }],
  ['wk', 'week', '604800', { s: 1 }],
  ['yr', 'year', '31557600', { s: 1 }],
  ['in', 'inch inches', '0.0254', { m: 1 }],
  ['ft', 'foot feet', '0.3048', { m: 1 }],
  ['yd', 'yard', '0.9144', { m: 1 }],
  ['mi', 'mile', '1609.344', { m: 1 }],
  ['\u00c5', 'angstrom', '1e-10', { m: 1 }],
  ['ha', 'hectare', '10000', { m: 2 }],
  ['', 'acre', '4046.8564224', { m: 2 }],
  ['gal', 'gallon', '0.003785411784', { m: 3 }],
  ['cc', '', '1e-6', { m: 3 }],
  ['lb lbs', 'pound', '0.45359237', { kg: 1 }],
  ['oz', 'ounce', '0.028349523125', { kg: 1 }],
  ['Da u', 'dalton amu', '1.66053906660e-27', { kg: 1 }],
  ['mph', '', '0.44704', { m: 1, s: -1 }],
  ['kph kmh', '', '5/18', { m: 1, s: -1 }],
  ['kn', 'knot', '463/900', { m: 1, s: -1 }],
  ['atm', 'atmosphere', '101325', PRESSURE],
  ['mmHg', 'torr', '20265/152', PRESSURE],
  ['psi', '', '6894.757293168', PRESSURE],
  ['rpm', '', '1/60', { s: -1 }],
  ['hp', 'horsepower', '745.69987158227022', POWER],
  ['\u00b0 deg', 'degree', '0.017453292519943295', { rad: 1 }],
  ['rev', 'revolution', '6.283185307179586', { rad: 1 }],
];

const PREFIXES: readonly (readonly [symbol: string, word: string, exponent: number])[] = [
  ['f', 'femto', -15],
  ['p', 'pico', -12],
  ['n', 'nano', -9],
  ['\u03bc', 'micro', -6],
  ['m', 'milli', -3],
  ['c', 'centi', -2],
  ['d', 'deci', -1],
  ['h', 'hecto', 2],
  ['k', 'kilo', 3],
  ['M', 'mega', 6],
  ['G', 'giga', 9],
  ['T', 'tera', 12],
  ['P', 'peta', 15],
];

const ZERO = rational(0n);
const TEMPERATURES: readonly (readonly [names: readonly string[], scale: string, offset: string])[] = [
  [['\u00b0C', 'degC', 'celsius', 'degree celsius', 'degrees celsius', 'degrees C'], '1', '273.15'],
  [
    ['\u00b0F', 'degF', 'fahrenheit', 'degree fahrenheit', 'degrees fahrenheit', 'degrees F'],
    '5/9',
    '45967/180',
  ],
];

const SYMBOLS = new Map<string, Unit>();
const WORDS = new Map<string, Unit>();

for (const row of PREFIXABLE) {
  for (const [symbol, word, exponent] of PREFIXES) addRow(row, symbol, word, exponent);
}
for (const row of [...PLAIN, ...PREFIXABLE]) addRow(row, '', '', 0);
for (const [names, scale, offset] of TEMPERATURES) {
  const unit = { dimensions: { K: 1 }, scale: constant(scale), offset: constant(offset) };
  for (const name of names) (/^[a-z ]+$/.test(name) ? WORDS : SYMBOLS).set(name, unit);
}

/** The unit called `name`: symbols by case (`mW` is not `MW`), words in any case and number. */
export function unitNamed(name: string): Unit | undefined {
  const symbol = SYMBOLS.get(name);
  if (symbol !== undefined) return symbol;
  const word = name.toLowerCase();
  return WORDS.get(word) ?? (word.endsWith('s') ? WORDS.get(word.slice(0, -1)) : undefined);
}

function addRow(
  [symbols, words, scale, dimensions]: Row,
  symbol: string,
  word: string,
  exponent: number,
): void {
  const factor = exponent < 0 ? rational(1n, 10n ** BigInt(-exponent)) : rational(10n ** BigInt(exponent));
  const base = constant(scale);
  const scaled = rational(base.numerator * factor.numerator, base.denominator * factor.denominator);
  const unit = { dimensions, scale: scaled, offset: ZERO };
  for (const name of symbols.split(' ')) if (name !== '') SYMBOLS.set(symbol + name, unit);
  for (const name of words.split(' ')) if (name !== '') WORDS.set(word + name, unit);
}

function constant(text: string): Rational {
  return parseNumber(text) ?? ONE;
}
