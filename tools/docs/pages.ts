/** The generated pages. `node tools/docs/write.ts` writes them; a test compares them with what is committed. */
import { join, resolve } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { configPage } from './config-page.ts';
import { errorsPage } from './errors-page.ts';
import { metricsPage } from './metrics-page.ts';
import { protocolsPage } from './protocols-page.ts';

const REPOSITORY = resolve(import.meta.dirname, '../..');

export interface Page {
  readonly path: string;
  readonly text: string;
}

export async function pages(): Promise<Page[]> {
  const drawn: readonly (readonly [path: string, text: string])[] = [
    ['docs/reference/config.md', configPage()],
    ['docs/reference/errors.md', errorsPage()],
    ['docs/reference/metrics.md', metricsPage()],
    ['docs/reference/protocols.md', protocolsPage()],
  ];
  return Promise.all(
    drawn.map(async ([name, text]) => {
      const path = join(REPOSITORY, name);
      return {
        path,
        text: await format(text, { ...(await resolveConfig(path)), proseWrap: 'always', filepath: path }),
      };
    }),
  );
}
