/** The kinds that exist, for the checks of a configuration. */
import type { Known } from '../config/check.ts';
import type { SystemConfig } from '../contract/config.ts';
import { ConsortError } from '../contract/errors.ts';
import { checkNeeds, memberOf, optionsFor } from '../gateway/catalog.ts';
import { protocols } from '../gateway/protocols/index.ts';
import { verifiers } from '../scoring/rewards/index.ts';

const protocolOf = ({ protocol }: SystemConfig) => protocols.find(({ name }) => name === protocol);

export const known: Known = {
  protocols: protocols.map(({ name }) => name),
  verifiers: verifiers.map(({ id }) => id),
  checkOptions(system, members) {
    const protocol = protocolOf(system);
    if (protocol) optionsFor(protocol, system.options, members);
  },
  checkNeeds(system, models) {
    const protocol = protocolOf(system);
    if (!protocol) return;
    checkNeeds(protocol, optionsFor(protocol, system.options), models.map(memberOf));
    if (protocol.showsDescriptions && models.every(({ description }) => description.trim() === ''))
      throw new ConsortError('descriptions_missing', [protocol.name, system.pool]);
  },
};
