/** A merge as files: the specification that mergekit or PEFT reads, what to run, and the model's entry afterwards. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { lineageOf } from '../../config/lineage.ts';
import type { WeightsConfig } from '../../contract/merge.ts';
import { METHODS } from './methods.ts';
import { PEFT_SCRIPT, peftJob } from './peft.ts';
import type { Merge } from './request.ts';

export interface Job {
  /** The merged model's id. */
  readonly id: string;
  readonly directory: string;
  /** Contents by name. */
  readonly files: Readonly<Record<string, string>>;
  /** To be run in order, where the weights' paths hold. */
  readonly commands: readonly string[];
}

const LONGEST_ID = 64;

/** Names its parents, if it is not too long for an id. */
function idOf({ parents, method }: Merge): string {
  const names = parents.map(({ id }) => id).join('.');
  const way = method.replaceAll('_', '-');
  const id = `${names}.${way}`;
  if (id.length <= LONGEST_ID) return id;
  return `${createHash('sha256').update(names).digest('hex').slice(0, 12)}.${way}`;
}

/** The specification of mergekit, https://github.com/arcee-ai/mergekit. */
function mergekitConfig(merge: Merge): string {
  const { parents, method, weights, density, lambda, t, dtype } = merge;
  const [first] = parents;
  const base = { base: first?.weights.base, first: first?.weights.at, none: undefined };
  const baseModel = base[METHODS[method].mergekitBase];
  const whole = { ...(lambda !== undefined && { lambda }), ...(t !== undefined && { t }) };
  return stringify({
    merge_method: method,
    ...(baseModel !== undefined && { base_model: baseModel }),
    models: parents.map(({ weights: { at } }, index) => {
      const weight = weights?.[index];
      const own = { ...(weight !== undefined && { weight }), ...(density !== undefined && { density }) };
      return { model: at, ...(Object.keys(own).length > 0 && { parameters: own }) };
    }),
    ...(Object.keys(whole).length > 0 && { parameters: whole }),
    dtype: 'float32',
    out_dtype: dtype,
  });
}

function revisionOf({ parents, method, weights, density, lambda, t, dtype }: Merge): string {
  const words = Object.entries({ weights: weights?.join(','), density, lambda, t, dtype });
  const said = words.flatMap(([name, value]) => (value === undefined ? [] : `${name}=${value}`));
  return `${method} ${said.join(' ')} of ${lineageOf(parents)}`;
}

/** The entry for `models` of the configuration. */
function modelEntry(id: string, merge: Merge, weights: WeightsConfig): string {
  const { parents, method } = merge;
  const aliases = parents.map((parent) => parent.id);
  const entry = {
    id,
    provider: 'openai-compatible',
    baseUrl: 'http://127.0.0.1:8000/v1',
    description: `${aliases.join(' and ')}, merged by ${method}`,
    revision: revisionOf(merge),
    weights,
    merged: { parents: aliases, method },
  };
  const note = '# For `models` of the configuration; baseUrl is where the merged model is served.\n';
  return note + stringify([entry], { lineWidth: 0 });
}

function readme(merge: Merge, commands: readonly string[]): string {
  const { parents, method } = merge;
  const list = parents.map(({ id, weights }) => `- ${id}: ${weights.at}`);
  return [
    `# ${parents.map(({ id }) => id).join(' + ')}, merged by ${method}`,
    '',
    ...list,
    '',
    'Nothing has been merged yet. Run, where these paths hold and the tools are installed:',
    '',
    '```sh',
    ...commands,
    '```',
    '',
    'Then add `model.yaml` to `models` of the configuration, with the address of the server.',
    '',
  ].join('\n');
}

/** As a shell takes it. */
function quoted(path: string): string {
  return /^[\w./@:+=-]+$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`;
}

function commandsOf(id: string, directory: string, at: string, { adapter, base }: WeightsConfig): string[] {
  const [script, specification] = [join(directory, 'merge.py'), join(directory, 'merge.yaml')].map(quoted);
  if (adapter) {
    const serve = `vllm serve ${quoted(base)} --enable-lora --lora-modules ${quoted(`${id}=${at}`)}`;
    return [`python ${script}`, serve];
  }
  return [
    `mergekit-yaml ${specification} ${quoted(at)} # with --cuda on a GPU`,
    `vllm serve ${quoted(at)} --served-model-name ${id}`,
  ];
}

export function jobOf(merge: Merge, out: string): Job {
  const id = idOf(merge);
  const directory = join(out, id);
  const [first] = merge.parents;
  if (!first) throw new TypeError('a merge of nothing');
  const at = join(directory, first.weights.adapter ? 'adapter/merged' : 'model');
  const weights = { ...first.weights, at };
  const commands = commandsOf(id, directory, at, weights);
  const specification: Record<string, string> = weights.adapter
    ? { 'merge.json': peftJob(merge), 'merge.py': PEFT_SCRIPT }
    : { 'merge.yaml': mergekitConfig(merge) };
  const files = {
    ...specification,
    'model.yaml': modelEntry(id, merge, weights),
    'README.md': readme(merge, commands),
  };
  return { id, directory, files, commands };
}
