import { readFileSync } from 'node:fs';
import t from 'tap';
import { CATALOGUE } from '../../src/contract/errors.ts';
import { pages } from '../../tools/docs/pages.ts';

const PAGE = 'docs/reference/errors.md';
const page = readFileSync(new URL(`../../${PAGE}`, import.meta.url), 'utf8');

t.test('the page of errors lists each code of the catalogue with its status and whether to retry', (t) => {
  const rows = page.matchAll(/^\| `(?<code>\w+)` +\| (?<status>\d+) +\| (?<retryable>yes|no) +\|/gm);
  const documented = Array.from(rows, ({ groups }) => [
    groups?.['code'],
    Number(groups?.['status']),
    groups?.['retryable'] === 'yes',
  ]);
  const catalogue = Object.entries(CATALOGUE).map(([code, { status, retryable }]) => [
    code,
    status,
    retryable,
  ]);
  t.strictSame(documented, catalogue);
  t.end();
});

t.test('the page of errors is what tools/docs/write.ts would write', async (t) => {
  const fresh = (await pages()).find(({ path }) => path.endsWith(PAGE));
  t.equal(page, fresh?.text, 'run `npm run docs`');
});
