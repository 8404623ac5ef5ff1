/**
 * Records the conversation with a real server: `node tools/trainer/record.ts BASE_URL NAME`. The base model is the one
 * that the server says it has; its path and the server's address are replaced, so that a recording names no machine.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { request } from 'undici';
import { converse } from './conversation.ts';

const [url = '', name = ''] = process.argv.slice(2);
const reply = await request(`${url}/api/v1/get_server_capabilities`);
const { supported_models: models } = (await reply.body.json()) as {
  supported_models: { model_name: string }[];
};
const baseModel = models[0]?.model_name ?? '';
const exchanges = await converse(url, baseModel, 'protobuf');
const text = JSON.stringify({ server: name, recordedAt: new Date().toISOString(), exchanges }, null, 1);
const target = fileURLToPath(new URL(`../../test/fixtures/trainers/${name}.json`, import.meta.url));
writeFileSync(
  target,
  `${text.replaceAll(baseModel, 'tiny-policy').replaceAll(url, 'http://trainer:8000')}\n`,
);
process.stdout.write(`${exchanges.length} exchanges in ${target}\n`);
