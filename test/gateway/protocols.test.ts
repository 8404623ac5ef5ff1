import t from 'tap';
import { protocols } from '../../src/gateway/protocols/index.ts';
import type { Options } from '../../src/gateway/protocols/protocol.ts';
import { protocolConformance } from '../conformance/protocol.ts';

/** Options whose code takes another way than the defaults. */
const VARIANTS: Readonly<Record<string, readonly Options[]>> = {
  vote: [{ samples: 3, ties: 'random' }],
  debate: [{ rounds: 1 }, { rounds: 3, ties: 'random' }],
  fuse: [{ fuserDrafts: false }],
};

for (const protocol of protocols) {
  protocolConformance(t, protocol);
  for (const options of VARIANTS[protocol.name] ?? []) protocolConformance(t, protocol, options);
}
