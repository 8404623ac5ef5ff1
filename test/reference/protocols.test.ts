import { readFileSync } from 'node:fs';
import t from 'tap';
import { protocols } from '../../src/gateway/protocols/index.ts';
import { pages } from '../../tools/docs/pages.ts';

const PAGE = 'docs/reference/protocols.md';
const page = readFileSync(new URL(`../../${PAGE}`, import.meta.url), 'utf8');
const guide = readFileSync(new URL('../../docs/protocols.md', import.meta.url), 'utf8');

t.test('the page of protocols is what tools/docs/write.ts would write', async (t) => {
  const fresh = (await pages()).find(({ path }) => path.endsWith(PAGE));
  t.equal(page, fresh?.text, 'run `npm run docs`');
});

t.test('the guide has a row for each protocol, and for no other', (t) => {
  const tables = Array.from(guide.matchAll(/^\| protocol .*?\n\n/gms), ([table]) => table).join('');
  const rows = Array.from(tables.matchAll(/^\| `([a-z-]+)`/gm), ([, name]) => name);
  t.strictSame(new Set(rows), new Set(protocols.map(({ name }) => name)));
  t.equal(rows.length, protocols.length);
  t.end();
});
