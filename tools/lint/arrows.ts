/** Who may import whom. Works on resolved paths, so the depth of a relative import does not matter; types count. */
import { dirname, relative, resolve, sep } from 'node:path';
import { isBuiltin } from 'node:module';
import {
  type Dependency,
  IMPURE_PACKAGES,
  isWithin,
  PACKAGES,
  RESERVED_BUILTINS,
  roomOf,
  ROOMS,
} from './house.ts';
import type { Context, NodeOf, Rule, StringLiteral } from './rule.ts';

/** The repository, wherever a copy of it lies. */
const ROOT = resolve(import.meta.dirname, '../..');

/** The path of a file within the repository, with slashes. */
const pathOf = (file: string) => relative(ROOT, file).split(sep).join('/');

/** The same for a source file; undefined outside `src`. */
export function sourcePath(file: string): string | undefined {
  const path = pathOf(file);
  return isWithin(path, 'src') ? path : undefined;
}

const covers = (dependency: Dependency, path: string) => dependency.in.some((place) => isWithin(path, place));

function packageRow(specifier: string): string {
  const [scope = '', name] = specifier.split('/');
  if (!scope.startsWith('@')) return scope;
  const scoped = `${scope}/${name ?? ''}`;
  return scoped in PACKAGES ? scoped : `${scope}/*`;
}

function judgeFile(from: string, target: string): string | undefined {
  const here = roomOf(from);
  if (!here) return undefined;
  if (!isWithin(target, 'src'))
    return `${from} reaches out of src to ${target}: move what it needs into a room of src.`;
  const { path, room } = here;
  if (isWithin(target, path) || room.sees.some((place) => isWithin(target, place))) return undefined;
  const ownRoom = from.split('/', 2).join('/');
  // A pure place is as narrow as its row says; the rest of a room is open to itself.
  if (!room.pure && isWithin(target, ownRoom)) return undefined;
  const there = roomOf(target);
  return `${path} may not import ${there?.path ?? target}: ${there?.room.instead ?? 'give it a row in tools/lint/house.ts'}.`;
}

function judgeBuiltin(from: string, specifier: string): string | undefined {
  const here = roomOf(from);
  if (!here) return undefined;
  const name = specifier.replace(/^node:/, '').split('/', 1)[0] ?? '';
  const reserved = RESERVED_BUILTINS[name];
  if (reserved && !covers(reserved, from))
    return `${here.path} may not import node:${name}: ${reserved.instead}.`;
  if (here.room.pure) {
    return `${here.path} is pure and may not import node:${name}: take the function that you need from it as a parameter.`;
  }
  const { builtins = [] } = here.room;
  if (builtins.includes(name) || builtins.includes('*')) return undefined;
  return `${here.path} may not import node:${name}: take what you need as a parameter, or, if the room truly needs it, add it to its row in tools/lint/house.ts.`;
}

function judgePackage(from: string, specifier: string): string | undefined {
  const here = roomOf(from);
  if (!here) return undefined;
  const row = packageRow(specifier);
  const dependency = PACKAGES[row];
  if (!dependency) {
    return `${specifier} is no dependency of src: use what is there; a new one needs a decision in docs/decisions/ and a row in tools/lint/house.ts.`;
  }
  if (!covers(dependency, from)) return `${here.path} may not import ${row}: ${dependency.instead}.`;
  if (here.room.pure && IMPURE_PACKAGES.includes(row)) {
    return `${here.path} is pure and may not import ${row}: take the function that you need from it as a parameter.`;
  }
  return undefined;
}

function judge(from: string, file: string, specifier: string): string | undefined {
  if (specifier.startsWith('.')) return judgeFile(from, pathOf(resolve(dirname(file), specifier)));
  if (isBuiltin(specifier)) return judgeBuiltin(from, specifier);
  return judgePackage(from, specifier);
}

/** The text of `new URL('./thread.ts', import.meta.url)`: a worker's entry is an import in disguise. */
function moduleUrl(node: NodeOf<'NewExpression'>): StringLiteral | undefined {
  const [first, second] = node.arguments;
  if (node.callee.type !== 'Identifier' || node.callee.name !== 'URL') return undefined;
  if (second?.type !== 'MemberExpression' || second.object.type !== 'MetaProperty') return undefined;
  if (first?.type !== 'Literal' || typeof first.value !== 'string') return undefined;
  return /\.[cm]?[jt]s$/.test(first.value) ? first : undefined;
}

export const arrows: Rule = {
  meta: { type: 'problem', docs: { description: 'Imports follow the arrows of tools/lint/house.ts' } },
  create(context: Context) {
    const from = sourcePath(context.filename);
    if (from === undefined) return {};
    const check = (source: StringLiteral | null) => {
      const message = source && judge(from, context.filename, source.value);
      if (source && message) context.report({ node: source, message });
    };
    return {
      Program(node) {
        if (roomOf(from)) return;
        const rooms = Object.keys(ROOMS).filter((path) => path.split('/').length === 2);
        context.report({ node, message: `${from} is in no room: move it into one of ${rooms.join(', ')}.` });
      },
      ImportDeclaration: (node) => check(node.source),
      ExportNamedDeclaration: (node) => check(node.source),
      ExportAllDeclaration: (node) => check(node.source),
      TSImportType: (node) => check(node.source),
      ImportExpression(node) {
        const { source } = node;
        if (source.type === 'Literal' && typeof source.value === 'string') return check(source);
        const message =
          'Import by a literal path, so that the arrow can be checked: a list (index.ts) replaces a computed name.';
        context.report({ node: source, message });
      },
      NewExpression: (node) => check(moduleUrl(node) ?? null),
    };
  },
};
