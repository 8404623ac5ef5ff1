/** Everything that a schema cannot say: names that must exist, options that a protocol must know. */
import { Compile } from 'typebox/compile';
import Value from 'typebox/value';
import { Config, type ModelConfig, type SystemConfig } from '../contract/config.ts';
import { ConsortError } from '../contract/errors.ts';
import { mergeProblems } from './lineage.ts';
import type { Problem } from './problem.ts';
import { nameOf } from './secrets.ts';

/** The kinds that the other rooms offer; handed in, because config imports none of them. */
export interface Known {
  readonly protocols: readonly string[];
  readonly verifiers: readonly string[];
  /** @throws a catalogue error when the options do not fit the protocol, or name members outside the pool */
  readonly checkOptions: (system: SystemConfig, members: readonly string[]) => void;
  /** @throws a catalogue error when a model of the pool cannot do what the protocol needs, or is not described */
  readonly checkNeeds: (system: SystemConfig, models: readonly ModelConfig[]) => void;
}

const schema = Compile(Config);

export interface Checked {
  /** Set when there are no problems. */
  readonly config?: Config;
  readonly problems: readonly Problem[];
}

/** Fills in defaults and checks a document whose references are resolved. */
export function checkDocument(document: unknown, known: Known): Checked {
  const filled: unknown = Value.Default(Config, structuredClone(document ?? {}));
  if (!schema.Check(filled)) return { problems: schemaProblems(filled) };
  const problems = [...duplicates(filled), ...references(filled, known)];
  return problems.length > 0 ? { problems } : { config: filled, problems };
}

function schemaProblems(document: unknown): Problem[] {
  const problems = new Map<string, Problem>();
  const words = new Map<string, unknown[]>();
  for (const { instancePath, keyword, message, params } of schema.Errors(document)) {
    if (keyword === 'additionalProperties') continue;
    const { path, value } = locate(document, instancePath);
    const unknown = keyword === 'boolean';
    // A union reports its branches and then itself: the first report says more.
    if (problems.has(path) && keyword === 'anyOf') continue;
    // A union of words reports each that it is not.
    if (keyword === 'const') words.set(path, [...(words.get(path) ?? []), ...Object.values<unknown>(params)]);
    const rule = keyword === 'const' ? `must be one of ${words.get(path)?.join(', ')}` : message;
    problems.set(path, {
      path,
      message: unknown ? 'is not a known field' : `${rule}, found ${shown(path, value)}`,
      remedy: unknown
        ? 'Remove it, or correct its spelling; docs/reference/config.md lists the fields.'
        : 'See docs/reference/config.md for what it takes.',
    });
  }
  return [...problems.values()];
}

/** Only what is short and cannot be a secret is repeated in a message. */
function shown(path: string, value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'an object';
  return /(?:apiKey|url)$/i.test(path) ? 'a value that is not shown' : JSON.stringify(value);
}

/** A JSON pointer as a path with ids, and the value there. */
function locate(document: unknown, pointer: string): { path: string; value: unknown } {
  const names: string[] = [];
  let value = document;
  for (const step of pointer.split('/').slice(1).map(unescaped)) {
    const list = Array.isArray(value);
    value =
      typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[step] : undefined;
    names.push(list ? nameOf(value, Number(step)) : step);
  }
  return { path: names.join('.') || 'the document', value };
}

/** RFC 6901, section 4. */
function unescaped(step: string): string {
  return step.replaceAll('~1', '/').replaceAll('~0', '~');
}

function duplicates(config: Config): Problem[] {
  const problems: Problem[] = [];
  const { models, pools, systems, trainers } = config;
  const lists = { models, pools, systems, trainers };
  for (const [list, items] of Object.entries(lists)) {
    const seen = new Set<string>();
    for (const { id } of items) {
      if (seen.has(id)) {
        const message = 'the id is used twice';
        problems.push({ path: `${list}.${id}`, message, remedy: 'Give each its own id.' });
      }
      seen.add(id);
    }
  }
  return problems;
}

function references(config: Config, known: Known): Problem[] {
  const problems: Problem[] = [];
  const report = (path: string, message: string, remedy: string) => problems.push({ path, message, remedy });
  const models = config.models.map(({ id }) => id);
  for (const model of config.models) {
    const { id, provider, baseUrl, endpoints } = model;
    if (provider === 'sim') continue;
    const remedy = 'Give the address up to and with /v1.';
    for (const [index, endpoint] of endpoints.entries()) {
      if (URL.canParse(endpoint.baseUrl)) continue;
      report(`models.${id}.endpoints.${index}.baseUrl`, 'is not an address', remedy);
    }
    if (baseUrl === undefined ? endpoints.length > 0 : URL.canParse(baseUrl)) continue;
    report(`models.${id}.baseUrl`, baseUrl === undefined ? 'is missing' : 'is not an address', remedy);
  }
  problems.push(...fallbackProblems(config));
  for (const pool of config.pools) {
    for (const member of pool.members) {
      if (models.includes(member)) continue;
      report(
        `pools.${pool.id}.members`,
        `there is no model ${member}`,
        `Use one of: ${models.join(', ') || 'none'}.`,
      );
    }
  }
  problems.push(...mergeProblems(config));
  for (const system of config.systems) problems.push(...systemProblems(system, config, known));
  if (config.auth.required && config.auth.keys.length === 0) {
    report('auth.keys', 'is empty although a key is required', 'Add one with `consort keys new`.');
  }
  return problems;
}

/** A policy's weights change, and who stands in must be what the configuration says. */
function fallbackProblems({ models }: Config): Problem[] {
  return models.flatMap(({ id, fallbacks }) =>
    fallbacks.flatMap((alias) => {
      const found = models.find((model) => model.id === alias);
      if (found && alias !== id && !found.hosting) return [];
      const others = models.filter((model) => model.id !== id && !model.hosting).map((model) => model.id);
      const message = found ? `${alias} cannot stand in for it` : `there is no model ${alias}`;
      const remedy = `Use one of: ${others.join(', ') || 'none'}.`;
      return [{ path: `models.${id}.fallbacks`, message, remedy }];
    }),
  );
}

function systemProblems(system: SystemConfig, config: Config, known: Known): Problem[] {
  const problems: Problem[] = [];
  const path = `systems.${system.id}`;
  const oneOf = (field: string, value: string, names: readonly string[]) => {
    if (names.includes(value)) return true;
    const remedy = `Use one of: ${names.join(', ') || 'none'}.`;
    problems.push({
      path: `${path}.${field}`,
      message: `there is no ${field.split('.').at(-1)} ${value}`,
      remedy,
    });
    return false;
  };
  const pool = config.pools.find(({ id }) => id === system.pool);
  oneOf(
    'pool',
    system.pool,
    config.pools.map(({ id }) => id),
  );
  if (system.reward) oneOf('reward.verifier', system.reward.verifier, known.verifiers);
  if (pool && system.tools !== 'speaker') {
    for (const alias of system.tools) oneOf('tools', alias, pool.members);
  }
  if (pool) problems.push(...trainProblems(system, pool.members, config));
  if (!oneOf('protocol', system.protocol, known.protocols) || !pool) return problems;
  const models = config.models.filter(({ id }) => pool.members.includes(id));
  const checks = [
    ['options', () => known.checkOptions(system, pool.members)],
    // Where coalitions are one model, nobody needs what a protocol asks of several; what is not found out yet, none can tell.
    [
      'pool',
      () => pool.merged === undefined && !config.server.probeAtStart && known.checkNeeds(system, models),
    ],
  ] as const;
  for (const [field, check] of checks) {
    try {
      check();
    } catch (error) {
      if (!ConsortError.is(error)) throw error;
      problems.push({ path: `${path}.${field}`, message: error.message, remedy: error.remedy });
      break;
    }
  }
  return problems;
}

/** A policy must be in its team, be served where its weights can be changed, and be trained by somebody. */
function trainProblems({ id, train }: SystemConfig, members: readonly string[], config: Config): Problem[] {
  if (!train) return [];
  const problems: Problem[] = [];
  const report = (field: string, message: string, remedy: string) =>
    problems.push({ path: `systems.${id}.train.${field}`, message, remedy });
  const { policy, trainer, prompts, holdout } = train;
  if (!members.includes(policy)) {
    report('policy', `${policy} is not in the pool`, `Use one of: ${members.join(', ')}.`);
  } else if (!config.models.find((model) => model.id === policy)?.hosting) {
    report('policy', `the model ${policy} has no hosting`, `Say in models.${policy}.hosting who serves it.`);
  }
  if (!config.trainers.some((one) => one.id === trainer)) {
    const names = config.trainers.map((one) => one.id).join(', ') || 'none';
    report('trainer', `there is no trainer ${trainer}`, `Use one of: ${names}.`);
  }
  if (prompts === holdout) {
    report('holdout', 'is the file that is trained on', 'Keep tasks apart that are never trained on.');
  }
  return problems;
}
