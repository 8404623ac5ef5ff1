/** What code may reach for without importing it: the clock, chance, timers, the environment, the network, the console. */
import { sourcePath } from './arrows.ts';
import {
  CONSOLE,
  type Dependency,
  ENVIRONMENT,
  IMPURE_GLOBALS,
  isWithin,
  PARTLY_IMPURE_GLOBALS,
  roomOf,
} from './house.ts';
import type { Context, Node, Rule } from './rule.ts';

type Use = (name: string, node: Node) => void;

/** Calls `use` for every value in the file that is a global's, not a local name or a type. */
function eachGlobal(context: Context, use: Use): void {
  const { globalScope } = context.sourceCode.scopeManager;
  if (!globalScope) return;
  const known = globalScope.variables.filter(({ defs }) => defs.length === 0);
  for (const { identifier } of [...known.flatMap(({ references }) => references), ...globalScope.through]) {
    const { parent } = identifier as Node & { parent: Node };
    if (!parent.type.startsWith('TS') || parent.type === 'TSAsExpression') use(identifier.name, identifier);
  }
}

/** `Date` in `Date.now`, `now`; undefined when the member is not a plain name or there is none. */
function memberOf(node: Node): string | undefined {
  const parent = node.parent;
  if (parent?.type !== 'MemberExpression' || parent.object !== node) return undefined;
  const { property } = parent;
  if (!parent.computed && property.type === 'Identifier') return property.name;
  return property.type === 'Literal' && typeof property.value === 'string' ? property.value : undefined;
}

function isHarmless(name: string, node: Node): boolean {
  const member = memberOf(node);
  if (member !== undefined) return !PARTLY_IMPURE_GLOBALS[name]?.members.includes(member);
  const parent = node.parent;
  if (parent?.type === 'NewExpression') return parent.callee === node && parent.arguments.length > 0;
  return parent?.type === 'BinaryExpression' && parent.operator === 'instanceof';
}

export const purity: Rule = {
  meta: { type: 'problem', docs: { description: 'Pure places take time, chance and I/O as parameters' } },
  create(context: Context) {
    const path = sourcePath(context.filename);
    const here = path === undefined ? undefined : roomOf(path);
    if (!here?.room.pure) return {};
    const report = (node: Node, what: string, instead: string) =>
      context.report({ node, message: `${here.path} is pure and may not use ${what}: ${instead}.` });
    return {
      'Program:exit'() {
        eachGlobal(context, (name, node) => {
          const partly = PARTLY_IMPURE_GLOBALS[name];
          if (partly && !isHarmless(name, node))
            report(node, `${name}.${partly.members.join()}`, partly.instead);
          const instead = Object.hasOwn(IMPURE_GLOBALS, name) ? IMPURE_GLOBALS[name] : undefined;
          if (instead) report(node, name, instead);
        });
      },
    };
  },
};

const isAllowed = (rule: Dependency, path: string) => rule.in.some((place) => isWithin(path, place));

/** `process.env`, `process['env']`, `const { env } = process`. */
function readsEnvironment(node: Node): boolean {
  const { parent } = node;
  if (memberOf(node) === 'env') return true;
  if (parent?.type !== 'VariableDeclarator' || parent.id.type !== 'ObjectPattern') return false;
  return parent.id.properties.some(
    (one) => one.type === 'RestElement' || (one.key.type === 'Identifier' && one.key.name === 'env'),
  );
}

export const environment: Rule = {
  meta: {
    type: 'problem',
    docs: { description: 'process.env is read in src/config, src/cli and the entry only' },
  },
  create(context: Context) {
    const path = sourcePath(context.filename);
    if (path === undefined || isAllowed(ENVIRONMENT, path) || roomOf(path)?.room.pure) return {};
    return {
      'Program:exit'() {
        eachGlobal(context, (name, node) => {
          if (name !== 'process' || !readsEnvironment(node)) return;
          context.report({ node, message: `${path} may not read process.env: ${ENVIRONMENT.instead}.` });
        });
      },
    };
  },
};

export const quiet: Rule = {
  meta: { type: 'problem', docs: { description: 'Only the command line prints' } },
  create(context: Context) {
    const path = sourcePath(context.filename);
    if (path === undefined || isAllowed(CONSOLE, path) || roomOf(path)?.room.pure) return {};
    return {
      'Program:exit'() {
        eachGlobal(context, (name, node) => {
          if (name === 'console')
            context.report({ node, message: `${path} may not use console: ${CONSOLE.instead}.` });
        });
      },
    };
  },
};
