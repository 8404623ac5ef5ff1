/** The kinds that exist, for the checks of a configuration. */
import type { Known } from '../config/check.ts';
import { optionsFor } from '../gateway/catalog.ts';
import { protocols } from '../gateway/protocols/index.ts';
import { verifiers } from '../scoring/rewards/index.ts';

export const known: Known = {
  protocols: protocols.map(({ name }) => name),
  verifiers: verifiers.map(({ id }) => id),
  checkOptions(system) {
    const protocol = protocols.find(({ name }) => name === system.protocol);
    if (protocol) optionsFor(protocol, system.options);
  },
};
