/** The generated files of the chart. `node tools/chart/write.ts` writes them; a test compares them with what is committed. */
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { dashboard } from './dashboard.ts';
import { CHART } from './helm.ts';
import { valuesSchema } from './values-schema.ts';

export async function generated(): Promise<{ path: string; text: string }[]> {
  const drawn: readonly (readonly [path: string, document: unknown])[] = [
    ['values.schema.json', valuesSchema()],
    ['files/dashboards/consort.json', dashboard()],
  ];
  return Promise.all(
    drawn.map(async ([name, document]) => {
      const path = join(CHART, name);
      const options = { ...(await resolveConfig(path)), filepath: path };
      return { path, text: await format(JSON.stringify(document), options) };
    }),
  );
}
