/** Options that were fitted to data and stand in files of their own: they become options like any other. */
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import type { Problem } from './problem.ts';

/** What `consort fit` writes; what else it says there is for people. */
export const FittedFile = Type.Object({
  protocol: Type.String(),
  options: Type.Record(Type.String(), Type.Unknown()),
});
const fittedFile = Compile(FittedFile);

function read(file: string): { value?: Type.Static<typeof FittedFile>; wrong?: string } {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return fittedFile.Check(value) ? { value } : { wrong: 'is not what `consort fit` writes' };
  } catch (error) {
    return { wrong: `cannot be read: ${error instanceof Error ? error.message : String(error)}` };
  }
}

type Fields = Record<string, unknown>;
const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The document with the options of its systems' files in it: under those that it gives itself.
 *
 * @param file the configuration, to which paths are relative
 */
export function withFitted(document: unknown, file: string): { document: unknown; problems: Problem[] } {
  const problems: Problem[] = [];
  if (!isObject(document) || !Array.isArray(document['systems'])) return { document, problems };
  const systems = document['systems'].map((system: unknown, index) => {
    if (!isObject(system) || typeof system['optionsFile'] !== 'string') return system;
    const { value, wrong } = read(resolve(dirname(file), system['optionsFile']));
    const fits = value && value.protocol === system['protocol'];
    if (value && fits) {
      const own = isObject(system['options']) ? system['options'] : {};
      return { ...system, options: { ...value.options, ...own } };
    }
    const id = typeof system['id'] === 'string' ? system['id'] : index;
    problems.push({
      path: `systems.${id}.optionsFile`,
      message: `${system['optionsFile']} ${wrong ?? `was fitted for protocol ${value?.protocol}`}`,
      remedy: 'Run `consort fit --system` for it, or leave the field out.',
    });
    return system;
  });
  return { document: { ...document, systems }, problems };
}
