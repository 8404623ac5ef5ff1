import { readFileSync } from 'node:fs';
import t from 'tap';
import { ownMetrics } from '../../tools/docs/metrics-page.ts';
import { pages } from '../../tools/docs/pages.ts';

const PAGE = 'docs/reference/metrics.md';
const page = readFileSync(new URL(`../../${PAGE}`, import.meta.url), 'utf8');

t.test('the page of metrics lists each metric of the gateway and no other', (t) => {
  const documented = Array.from(page.matchAll(/^\| `(consort_\w+)`/gm), ([, name]) => name);
  t.strictSame(
    documented,
    ownMetrics().map(({ name }) => name),
  );
  t.ok(documented.length > 15, 'there are metrics to document');
  t.end();
});

t.test('the page of metrics is what tools/docs/write.ts would write', async (t) => {
  const fresh = (await pages()).find(({ path }) => path.endsWith(PAGE));
  t.equal(page, fresh?.text, 'run `npm run docs`');
});
