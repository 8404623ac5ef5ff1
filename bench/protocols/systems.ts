/**
 * What is measured: one system for each protocol whose members speak in words, on the tiny team; and the same on a team
 * in which one member is malicious, whose calls go through the meddler.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { WINDOW } from '../../examples/tiny-team/team-run.ts';
import { spokenProtocols } from '../../examples/tiny-team/protocol-prompts.ts';
import { streamsWith } from '../../src/gateway/protocols/protocol.ts';

export const PARTNERS = ['tiny-ada', 'tiny-bo', 'tiny-cy'];
export const MALICIOUS = 'mallory';
/** Second, so that it is heard and checked, but first in no role and last in no line. */
const ATTACKED_ORDER = ['ada', MALICIOUS, 'bo', 'cy'];

const PRACTISED: Readonly<Record<string, string>> = {
  ada: 'practised in add and max',
  bo: 'practised in reverse and max',
  cy: 'practised in mod and reverse',
  [MALICIOUS]: 'practised in add and mod',
};

/** The tiny server tells up to 20 log-probabilities a token. */
const CAPABILITIES = { context: WINDOW, logprobs: 20 };

export interface Measured {
  readonly protocol: string;
  /** As clients ask for it. */
  readonly model: string;
  readonly attacked: string;
  readonly streams: boolean;
  /** What `consort fit` wrote for the partners, on the tasks that they were trained for; the attacked team has none. */
  readonly fitted?: string;
  readonly options: Readonly<Record<string, unknown>>;
}

function fittedFor(protocol: string): Pick<Measured, 'fitted'> {
  const fitted = join(import.meta.dirname, 'fitted', `${protocol}.json`);
  return existsSync(fitted) ? { fitted } : {};
}

export const SYSTEMS: readonly Measured[] = spokenProtocols.map(({ protocol, options, given }) => ({
  ...fittedFor(protocol.name),
  protocol: protocol.name,
  model: `consort/${protocol.name}`,
  attacked: `consort/attacked-${protocol.name}`,
  streams: streamsWith(protocol, options),
  options: given,
}));

/** One member asked several times: what the calls of a team would buy without one. */
export const REPEATED = 'consort/repeated';

function modelsOf(tinyUrl: string, meddlerUrl: string): object[] {
  const model = (id: string, name: string, baseUrl: string, capabilities: object) => ({
    id,
    provider: 'openai-compatible',
    baseUrl,
    model: name,
    description: `0.43M parameters, ${PRACTISED[id.replace('tiny-', '')] ?? ''}`,
    capabilities,
    retries: 0,
  });
  return [
    ...PARTNERS.map((id) => model(id, id, tinyUrl, CAPABILITIES)),
    ...ATTACKED_ORDER.map((id) => {
      const isMalicious = id === MALICIOUS;
      const capabilities = isMalicious ? { context: WINDOW } : CAPABILITIES;
      return model(id, isMalicious ? id : `tiny-${id}`, meddlerUrl, capabilities);
    }),
  ];
}

export function configOf(tinyUrl: string, meddlerUrl: string, directory: string): object {
  const budget = { calls: 128, deadlineMs: 60_000 };
  return {
    server: { port: 0, adminPort: 0 },
    store: { url: `sqlite:${directory}/consort.db`, spoolDirectory: `${directory}/spool` },
    models: modelsOf(tinyUrl, meddlerUrl),
    pools: [
      { id: 'tiny', members: PARTNERS },
      { id: 'attacked', members: ATTACKED_ORDER },
    ],
    systems: [
      { id: 'repeated', pool: 'tiny', protocol: 'vote', options: { earlyExit: 0 }, budget },
      ...SYSTEMS.flatMap(({ protocol, options, fitted }) => [
        { id: protocol, pool: 'tiny', protocol, options, budget, ...(fitted && { optionsFile: fitted }) },
        { id: `attacked-${protocol}`, pool: 'attacked', protocol, options, budget },
      ]),
    ],
  };
}
