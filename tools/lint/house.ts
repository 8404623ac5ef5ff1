/**
 * The house as one table: which folder may import what, and which folders are pure. The rules in this folder read
 * it for every file, so there is no second list and nothing generated that could grow stale. A row holds for its
 * folder (or file) and what lies below, until a longer path has a row of its own.
 */

export interface Room {
  /** Folders and files of `src` it may import besides its own. */
  readonly sees: readonly string[];
  /** `node:` modules it may import. A pure place has none, whatever its room has. */
  readonly builtins?: readonly string[];
  /** Takes time, chance, names and I/O as parameters. */
  readonly pure?: true;
  /** What a file that reached for this place and may not should do. */
  readonly instead: string;
}

const HANDED_IN = 'take what you need as a parameter; src/cli hands it in';
const PURE_SCORING = [
  'src/scoring/rewards',
  'src/scoring/designs',
  'src/scoring/estimators',
  'src/scoring/statistics',
  'src/scoring/select.ts',
];
const pureScoring: Room = { sees: ['src/contract', ...PURE_SCORING], pure: true, instead: HANDED_IN };
const PURE_POLICY = [
  'src/policy/advantages.ts',
  'src/policy/blame.ts',
  'src/policy/datums.ts',
  'src/policy/group-check.ts',
  'src/policy/groups.ts',
  'src/policy/objectives.ts',
  'src/policy/turns.ts',
  'src/policy/release/machine.ts',
  'src/policy/release/gate.ts',
];
const purePolicy: Room = {
  sees: ['src/contract', 'src/scoring/statistics', ...PURE_POLICY],
  pure: true,
  instead: HANDED_IN,
};

export const ROOMS: Readonly<Record<string, Room>> = {
  'src/contract': {
    sees: [],
    pure: true,
    instead: 'the words are open to every room, so this message is never shown',
  },

  'src/scoring': {
    sees: ['src/contract'],
    builtins: [
      'crypto',
      'events',
      'fs',
      'path',
      'readline',
      'stream',
      'timers',
      'url',
      'util',
      'worker_threads',
    ],
    instead: `import only its pure statistics, and only from src/policy; else ${HANDED_IN}`,
  },
  ...Object.fromEntries(PURE_SCORING.map((path) => [path, pureScoring])),

  'src/gateway': {
    sees: ['src/contract', 'src/scoring'],
    builtins: [
      'async_hooks',
      'buffer',
      'crypto',
      'events',
      'http',
      'https',
      'net',
      'perf_hooks',
      'stream',
      'string_decoder',
      'timers',
      'tls',
      'url',
      'util',
      'zlib',
    ],
    instead: 'take a RunSystem (src/contract/capabilities.ts) as a parameter; src/cli builds it',
  },
  'src/gateway/protocols': {
    sees: ['src/contract', 'src/scoring/rewards', 'src/scoring/statistics'],
    pure: true,
    instead: HANDED_IN,
  },

  'src/policy': {
    sees: ['src/contract', 'src/scoring/statistics'],
    builtins: ['crypto', 'events', 'fs', 'path', 'stream', 'timers', 'url', 'util', 'worker_threads', 'zlib'],
    instead: HANDED_IN,
  },
  ...Object.fromEntries(PURE_POLICY.map((path) => [path, purePolicy])),

  'src/store': {
    sees: ['src/contract'],
    builtins: [
      'buffer',
      'crypto',
      'events',
      'fs',
      'os',
      'path',
      'readline',
      'sqlite',
      'stream',
      'timers',
      'url',
      'util',
      'worker_threads',
    ],
    instead: 'take an interface of src/contract/store.ts as a parameter; src/cli hands the implementation in',
  },

  'src/config': {
    sees: ['src/contract'],
    // http and https: without a file, discovery asks the servers of this machine for their models.
    builtins: ['crypto', 'events', 'fs', 'http', 'https', 'path', 'process', 'timers', 'url', 'util'],
    instead: 'take a Config (src/contract/config.ts), or a part of it, as a parameter; src/cli loads it',
  },

  'src/cli': {
    sees: ['src/contract', 'src/scoring', 'src/gateway', 'src/policy', 'src/store', 'src/config'],
    builtins: ['*'],
    instead: `nothing imports the composition root; ${HANDED_IN}`,
  },
  'src/main.ts': {
    sees: ['src/cli', 'src/contract'],
    builtins: ['process', 'module', 'url'],
    instead: 'nothing imports the entry; move what you need into a room',
  },
};

export interface Dependency {
  /** Where it may be imported; nowhere else in `src`, not even in the composition root. */
  readonly in: readonly string[];
  readonly instead: string;
}

const SERVER = { in: ['src/gateway'], instead: 'only the gateway speaks HTTP to clients' };
const MATHEMATICS = { in: ['src/scoring', 'src/policy'], instead: 'put the computation into src/scoring' };

/** Every package that `src` may import. A name that ends in `/*` stands for a scope. */
export const PACKAGES: Readonly<Record<string, Dependency>> = {
  typebox: { in: ['src'], instead: '' },
  fastify: SERVER,
  'fastify-plugin': SERVER,
  '@fastify/*': SERVER,
  'prom-client': { in: ['src/gateway'], instead: 'take the function that counts as a parameter' },
  undici: {
    in: ['src/gateway/upstreams', 'src/policy/trainers', 'src/policy/serving'],
    instead:
      'upstream calls belong into an upstream, a trainer or a serving fleet; elsewhere take `ask` or `post`',
  },
  pino: { in: ['src/gateway', 'src/cli'], instead: 'take the function that logs as a parameter' },
  ioredis: {
    in: ['src/store'],
    instead: 'only the store speaks to Redis: use an interface of src/contract/store.ts',
  },
  tar: { in: ['src/policy/trainers'], instead: 'only the trainers unpack archives' },
  openai: { in: ['src/cli/demo'], instead: 'speak to models through an upstream; only the tour is a client' },
  yaml: { in: ['src/config', 'src/cli'], instead: 'src/config reads YAML; take the value as a parameter' },
  cephes: MATHEMATICS,
  'ml-matrix': MATHEMATICS,
  'pure-rand': MATHEMATICS,
};

/** `node:` modules that one place has for itself, even against `*`. */
export const RESERVED_BUILTINS: Readonly<Record<string, Dependency>> = {
  sqlite: {
    in: ['src/store'],
    instead: 'only the store speaks to SQLite: use an interface of src/contract/store.ts',
  },
};

/** Packages that write, wait or listen: no pure place may have them, whatever its room may. */
export const IMPURE_PACKAGES: readonly string[] = [
  'fastify',
  'fastify-plugin',
  '@fastify/*',
  'prom-client',
  'undici',
  'pino',
  'ioredis',
];

const CLOCK = 'take a Clock (src/contract/capabilities.ts) or a time as a parameter';
const CHANCE = 'take a Random (src/contract/capabilities.ts) or a seed as a parameter';
const WAITING = 'pure code does not wait or schedule: let the caller do it, or take a Clock';
const NETWORK = 'take `ask` or `post` as a parameter';
const PROCESS = 'take the value as a parameter; src/config reads the environment';
const HIDDEN = 'name what you mean; through it every impure thing is in reach';

/** What a pure place may not name, and what to do instead. `Date` and `Math` have harmless members and are below. */
export const IMPURE_GLOBALS: Readonly<Record<string, string>> = {
  performance: CLOCK,
  setTimeout: WAITING,
  setInterval: WAITING,
  setImmediate: WAITING,
  queueMicrotask: WAITING,
  process: PROCESS,
  fetch: NETWORK,
  WebSocket: NETWORK,
  EventSource: NETWORK,
  BroadcastChannel: NETWORK,
  console: 'return the value, or take the function that logs as a parameter',
  crypto: `${CHANCE}, or a NewId or a hash function`,
  globalThis: HIDDEN,
  global: HIDDEN,
};

/** Globals of which a pure place may use some members. */
export const PARTLY_IMPURE_GLOBALS: Readonly<
  Record<string, { readonly members: readonly string[]; readonly instead: string }>
> = {
  Date: { members: ['now'], instead: CLOCK },
  Math: { members: ['random'], instead: CHANCE },
  AbortSignal: { members: ['timeout'], instead: WAITING },
};

export const ENVIRONMENT: Dependency = {
  in: ['src/config', 'src/cli', 'src/main.ts'],
  instead: 'take the value as a parameter; src/config reads the environment',
};

export const CONSOLE: Dependency = {
  in: ['src/cli', 'src/main.ts'],
  instead: 'take the function that logs as a parameter, or return the text and let src/cli print it',
};

/** Whether `path` is `place` or lies below it. */
export function isWithin(path: string, place: string): boolean {
  return path === place || path.startsWith(`${place}/`);
}

/** The longest row that covers `path`. */
export function roomOf(path: string): { readonly path: string; readonly room: Room } | undefined {
  let found: string | undefined;
  for (const place of Object.keys(ROOMS)) {
    if (isWithin(path, place) && place.length > (found?.length ?? 0)) found = place;
  }
  const room = found === undefined ? undefined : ROOMS[found];
  return found === undefined || room === undefined ? undefined : { path: found, room };
}
