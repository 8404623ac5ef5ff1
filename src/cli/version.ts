/** The version of the package that this file belongs to. */
import { readFileSync } from 'node:fs';
import Type from 'typebox';
import { Compile } from 'typebox/compile';

const Package = Compile(Type.Object({ version: Type.String() }, { additionalProperties: true }));
const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
const parsed: unknown = JSON.parse(text);

export const version: string = Package.Check(parsed) ? parsed.version : 'unknown';
