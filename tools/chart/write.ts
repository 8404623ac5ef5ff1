/** Writes the generated files of the chart. */
import { writeFileSync } from 'node:fs';
import { generated } from './generated.ts';

for (const { path, text } of await generated()) {
  writeFileSync(path, text);
  console.log(path);
}
