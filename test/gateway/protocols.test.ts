import t from 'tap';
import { protocols } from '../../src/gateway/protocols/index.ts';
import { protocolConformance, type Row } from '../conformance/protocol.ts';

/**
 * What each protocol is run with besides its defaults: options whose code takes another way, and what the suite must
 * know of it (the fields of `Row`). A protocol without an entry is run with its defaults.
 */
const ROWS: Readonly<Record<string, readonly Omit<Row, 'protocol'>[]>> = {
  vote: [{}, { options: { samples: 3, ties: 'random' } }],
  debate: [{}, { options: { rounds: 1 } }, { options: { rounds: 3, ties: 'random' } }],
  fuse: [{}, { options: { fuserDrafts: false } }],
};

for (const protocol of protocols) {
  for (const row of ROWS[protocol.name] ?? [{}]) protocolConformance(t, { protocol, ...row });
}
