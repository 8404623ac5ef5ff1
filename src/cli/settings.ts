/** The configuration a command works with: a file, or what is found. */
import { checkDocument } from '../config/check.ts';
import { discover } from '../config/discover.ts';
import { readConfig } from '../config/load.ts';
import { problemError } from '../config/problem.ts';
import type { Config } from '../contract/config.ts';
import { ConsortError } from '../contract/errors.ts';
import { integerFlag, textFlag, type Invocation } from './command.ts';
import { known } from './known.ts';

export interface Settings {
  readonly config: Config;
  /** How it came about, when there was no file. */
  readonly notice: string | null;
}

/** @throws `config_invalid`, `config_unreadable` */
export async function loadSettings({ flags, environment }: Invocation): Promise<Settings> {
  const file = textFlag(flags, 'config') ?? environment['CONSORT_CONFIG'];
  if (file !== undefined) {
    const { config, problems } = readConfig(file, environment, known);
    if (!config) throw problemError(problems);
    return { config: withFlags(config, flags), notice: null };
  }
  const { document, notice } = await discover(environment);
  const { config, problems } = checkDocument(document, known);
  if (!config) throw problemError(problems);
  return { config: withFlags(config, flags), notice };
}

function withFlags(config: Config, flags: Invocation['flags']): Config {
  const port = integerFlag(flags, 'port', 0, 65_535) ?? config.server.port;
  const adminPort = integerFlag(flags, 'admin-port', 0, 65_535) ?? config.server.adminPort;
  const url = textFlag(flags, 'store') ?? config.store.url;
  return { ...config, server: { ...config.server, port, adminPort }, store: { ...config.store, url } };
}

/** @throws `usage` listing the systems there are */
export function systemNamed<S>(systems: ReadonlyMap<string, S>, id: string, prefix: string): S {
  const system = systems.get(`${prefix}${id}`);
  if (system) return system;
  const names = [...systems.keys()].filter((name) => name.startsWith(prefix));
  const all = names.map((name) => name.slice(prefix.length)).join(', ') || 'none';
  throw new ConsortError('usage', [`there is no system ${id}; there are: ${all}`]);
}
