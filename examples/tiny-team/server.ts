/** Serves the tiny models on one port: `node server.ts [--port N]`. Prints one JSON line when it is ready. */
import { readdir } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';
import { Adapters } from './server/adapters.ts';
import { httpServer, listen } from './server/http.ts';
import { TinyModel } from './server/tiny-model.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    models: { type: 'string', default: join(import.meta.dirname, 'models') },
  },
});

const llama = await getLlama({
  gpu: false,
  build: 'never',
  progressLogs: false,
  logLevel: LlamaLogLevel.error,
  maxThreads: availableParallelism(),
});
const models = new Map<string, TinyModel>();
for (const file of (await readdir(values.models)).toSorted()) {
  const id = basename(file, '.gguf');
  if (id !== file) models.set(id, await TinyModel.load(llama, id, join(values.models, file)));
}

const server = httpServer({ models, adapters: new Adapters(llama, models) });
const url = await listen(server, Number(values.port));
console.log(JSON.stringify({ url, baseUrl: `${url}/v1`, models: [...models.keys()] }));

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void close());

async function close(): Promise<void> {
  server.close();
  server.closeAllConnections();
  await llama.dispose();
}
