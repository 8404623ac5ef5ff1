/** What is asked of `consort merge`, checked: which models, by which method, with which parameters. */
import type { Config, ModelConfig } from '../../contract/config.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { MergeMethod, WeightsConfig } from '../../contract/merge.ts';
import { bitsOf } from '../../gateway/engine/outcome.ts';
import { numberFlag, textFlag, type Flags } from '../command.ts';
import { METHODS, type MergeParameter } from './methods.ts';

/** 1,013 jobs; one member more would be 2,036. */
const MOST_FOR_ALL = 10;
/** Kept of each task vector where nothing is said. */
const DENSITY = 0.5;

export type Parent = ModelConfig & { readonly weights: WeightsConfig };

/** One merge to be made. */
export interface Merge {
  readonly parents: readonly Parent[];
  readonly method: MergeMethod;
  /** One for each parent, where the method takes weights. */
  readonly weights?: readonly number[];
  readonly density?: number;
  readonly lambda?: number;
  readonly t?: number;
  /** Number format of the merged weights; the arithmetic is in 32 bits. */
  readonly dtype: string;
}

/** @throws `usage`, `merge_invalid` */
export function readMerges(flags: Flags, config: Config): Merge[] {
  const { names, pool } = namesOf(flags, config);
  const method = methodOf(textFlag(flags, 'method') ?? pool?.merged);
  const parents = parentsOf(names, method, config);
  const common = parametersOf(flags, method, parents);
  const weights = weightsOf(flags, parents);
  return coalitionsOf(flags, parents, method).map((team) => {
    const own = team.map((parent) => weights?.[parents.indexOf(parent)] ?? 1 / team.length);
    return { parents: team, method, ...common, ...(takes(method, parents, 'weight') && { weights: own }) };
  });
}

function namesOf(flags: Flags, config: Config) {
  const coalition = textFlag(flags, 'coalition');
  const id = textFlag(flags, 'pool');
  if ((coalition === undefined) === (id === undefined))
    throw new ConsortError('usage', ['say --coalition a,b or --pool ID']);
  if (coalition !== undefined) return { names: [...new Set(coalition.split(','))] };
  const pool = config.pools.find((one) => one.id === id);
  const pools = config.pools.map((one) => one.id).join(', ') || 'none';
  if (!pool) throw new ConsortError('usage', [`there is no pool ${id}; there are: ${pools}`]);
  return { names: pool.members, pool };
}

function methodOf(name: string | undefined): MergeMethod {
  const known = Object.keys(METHODS);
  if (name === undefined) throw new ConsortError('usage', [`--method is required: ${known.join(', ')}`]);
  if (isMethod(name)) return name;
  throw new ConsortError('usage', [`--method takes one of ${known.join(', ')}, got ${name}`]);
}

function isMethod(name: string): name is MergeMethod {
  return Object.hasOwn(METHODS, name);
}

/** The models with their weights: alike, or they cannot be merged. */
function parentsOf(names: readonly string[], method: MergeMethod, config: Config): Parent[] {
  const refuse = (why: string, remedy: string) => new ConsortError('merge_invalid', [method, why, remedy]);
  const known = config.models.map(({ id }) => id).join(', ') || 'none';
  const parents = names.map((name) => {
    const model = config.models.find(({ id }) => id === name);
    if (!model) throw refuse(`there is no model ${name}`, `Use some of: ${known}.`);
    if (model.weights) return { ...model, weights: model.weights };
    throw refuse(
      `nothing is said of the weights of ${name}`,
      `Say in models.${name}.weights where they are and what they were trained from.`,
    );
  });
  const [first, ...others] = parents;
  if (!first || others.length === 0)
    throw refuse('it takes two at least', 'A single member is called itself.');
  for (const field of ['base', 'architecture', 'adapter'] as const) {
    const other = others.find(({ weights }) => weights[field] !== first.weights[field]);
    if (!other) continue;
    const said = [first, other].map(({ id, weights }) => `${id}: ${weights[field]}`).join(', ');
    throw refuse(`they differ in weights.${field} (${said})`, 'Merge what was trained from one base.');
  }
  if (neededOf(method, parents)) return parents;
  const kind = first.weights.adapter ? 'adapters' : 'models';
  const usable = Object.entries(METHODS).flatMap(([name, needs]) => (needs[kind] ? name : []));
  throw refuse(`it is not for ${kind}`, `Use one of: ${usable.join(', ')}.`);
}

function neededOf(method: MergeMethod, parents: readonly Parent[]): readonly MergeParameter[] | undefined {
  return METHODS[method][parents[0]?.weights.adapter ? 'adapters' : 'models'];
}

function takes(method: MergeMethod, parents: readonly Parent[], parameter: MergeParameter): boolean {
  return neededOf(method, parents)?.includes(parameter) ?? false;
}

/** Everything but the weights. What a method does not take is refused, because it would not be looked at. */
function parametersOf(flags: Flags, method: MergeMethod, parents: readonly Parent[]) {
  const given = {
    density: numberFlag(flags, 'density', 0, 1),
    lambda: numberFlag(flags, 'lambda', -10, 10),
    t: numberFlag(flags, 't', 0, 1),
  };
  for (const parameter of ['density', 'lambda', 't'] as const) {
    if (given[parameter] !== undefined && !takes(method, parents, parameter))
      throw new ConsortError('usage', [`--method ${method} takes no --${parameter} here`]);
  }
  if (textFlag(flags, 'weights') !== undefined && !takes(method, parents, 'weight'))
    throw new ConsortError('usage', [`--method ${method} takes no --weights`]);
  const density = given.density ?? (takes(method, parents, 'density') ? DENSITY : undefined);
  if (density === 0) throw new ConsortError('usage', ['--density 0 keeps nothing of the parents']);
  const t = given.t ?? (takes(method, parents, 't') ? 0.5 : undefined);
  return {
    dtype: textFlag(flags, 'dtype') ?? 'bfloat16',
    ...(density !== undefined && { density }),
    ...(given.lambda !== undefined && { lambda: given.lambda }),
    ...(t !== undefined && { t }),
  };
}

/** As many as there are models named, in their order; a coalition takes those of its members. */
function weightsOf(flags: Flags, parents: readonly Parent[]): readonly number[] | undefined {
  const text = textFlag(flags, 'weights');
  if (text === undefined) return undefined;
  const weights = text.split(',').map((one) => (one.trim() === '' ? NaN : Number(one)));
  if (weights.length === parents.length && weights.every((weight) => Number.isFinite(weight))) return weights;
  throw new ConsortError('usage', [`--weights takes ${parents.length} numbers, got ${text}`]);
}

function coalitionsOf(flags: Flags, parents: readonly Parent[], method: MergeMethod): Parent[][] {
  const most = METHODS[method].mostParents ?? Infinity;
  if (flags['all'] !== true) {
    if (parents.length <= most) return [[...parents]];
    const why = `it takes ${most}, and these are ${parents.length}`;
    throw new ConsortError('merge_invalid', [method, why, 'Use another method for more.']);
  }
  if (parents.length > MOST_FOR_ALL) {
    const jobs = 2 ** parents.length - parents.length - 1;
    const why = `--all of ${parents.length} models are ${jobs} merges, and ${MOST_FOR_ALL} models are the most`;
    throw new ConsortError('merge_invalid', [method, why, 'Name the coalitions that you need.']);
  }
  return Array.from({ length: 2 ** parents.length - 1 }, (_, index) =>
    bitsOf(index + 1).flatMap((bit) => parents[bit] ?? []),
  ).filter(({ length }) => length >= 2 && length <= most);
}
