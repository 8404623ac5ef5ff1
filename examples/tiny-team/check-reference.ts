/**
 * Checks, a part of `npm run check`, that logit-fusion and nudge over HTTP say token for token what PyTorch says that they
 * must (`recipe/reference.py`).
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { TinyTeam } from './client.ts';
import { Gateway } from './gateway.ts';

interface Reference {
  fusion: { prompt: string; tokens: string[] }[];
  nudge: { prompt: string; text: string }[];
}

const file = join(import.meta.dirname, 'recipe', 'reference.json');
const { fusion, nudge } = JSON.parse(await readFile(file, 'utf8')) as Reference;
assert.ok(fusion.length >= 20 && nudge.length >= 20);

await using team = await TinyTeam.start();
await using gateway = await Gateway.start('together.yaml', team.baseUrl);

for (const { prompt, tokens } of fusion) {
  const { pieces } = await gateway.ask('consort/fusion', prompt, true);
  assert.deepEqual(pieces, tokens, prompt);
}
console.log(`ok  fusion says the tokens of the reference on ${fusion.length} prompts`);

for (const { prompt, text } of nudge) {
  assert.equal((await gateway.ask('consort/nudge', prompt)).text, text, prompt);
}
console.log(`ok  nudge says the text of the reference on ${nudge.length} prompts`);
