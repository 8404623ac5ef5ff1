/** Exercises LoRA adapters on the running server, a part of `npm run check`. */
import assert from 'node:assert/strict';
import { cp, mkdtemp, readdir, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { vllm } from '../../src/policy/serving/vllm.ts';
import { TinyTeam } from './client.ts';
import { idleAdapter, keyOf, randomAdapter, readWeights, writeAdapter } from './write-adapter.ts';

interface Step {
  token: string;
  logprob: number;
}

const base = 'tiny-policy';
const messages = [{ role: 'user', content: 'What is 37 + 58? End with: The answer is X.' }];
/** Queries and keys of 16 bits, twice as large and half as large, are rounded alike; sums of 32 bits are not. */
const tolerance = 0.01;

await using disk = await mkdtempDisposable();
// Where the server writes too, so that the end of the check can see what it left.
process.env['TMPDIR'] = disk.path;
await using team = await TinyTeam.start();
const at = (name: string): string => join(disk.path, name);

const ask = async (route: string, body: object): Promise<{ status: number; text: string }> => {
  const response = await fetch(`${team.baseUrl}/${route}`, { method: 'POST', body: JSON.stringify(body) });
  return { status: response.status, text: await response.text() };
};
const load = (name: string, path = at(name), more: object = {}) =>
  ask('load_lora_adapter', { lora_name: name, lora_path: path, ...more });
const unload = (name: string) => ask('unload_lora_adapter', { lora_name: name });
const loaded = async (name: string, path?: string, more?: object): Promise<void> =>
  assert.deepEqual(await load(name, path, more), {
    status: 200,
    text: `Success: LoRA adapter '${name}' added successfully.`,
  });
const unloaded = async (name: string): Promise<void> =>
  assert.deepEqual(await unload(name), {
    status: 200,
    text: `Success: LoRA adapter '${name}' removed successfully.`,
  });
const refused = (answer: { status: number; text: string }, status: number, message: RegExp): void => {
  const { error } = JSON.parse(answer.text) as { error: { message: string; type: string } };
  assert.match(error.message, message);
  assert.deepEqual([answer.status, error.type], [status, 'invalid_request_error']);
};
const steps = async (model: string, more: object = {}): Promise<Step[]> => {
  const body = { model, messages, temperature: 0, max_tokens: 12, logprobs: true, top_logprobs: 5, ...more };
  const response = await team.post(body);
  assert.equal(response.status, 200);
  const { choices } = (await response.json()) as { choices: { logprobs: { content: Step[] } }[] };
  return choices[0]?.logprobs.content ?? [];
};
const apart = (one: Step[], other: Step[]): number =>
  Math.max(
    ...one.map(({ token, logprob }, place) => {
      return token === other[place]?.token ? Math.abs(logprob - other[place].logprob) : Infinity;
    }),
  );

await writeAdapter(at('random'), { r: 8, lora_alpha: 16 }, randomAdapter(1, 8, 0.2));
await writeAdapter(at('zero'), { r: 8, lora_alpha: 16 }, randomAdapter(1, 8, 0));

const checks: Record<string, () => Promise<void>> = {
  async 'lists an adapter with its path and its base, and serves it'() {
    await loaded('random');
    const { data } = (await (await fetch(`${team.baseUrl}/models`)).json()) as {
      data: { id: string; root: string; parent: string | null }[];
    };
    const card = ({ id, root, parent } = data.find((each) => each.id === 'random') ?? assert.fail()) => [
      id,
      root,
      parent,
    ];
    assert.deepEqual(card(), ['random', at('random'), base]);
    assert.equal(data.find(({ id }) => id === base)?.parent, null);

    assert.notDeepEqual(await steps('random'), await steps(base));
    const drawn = { temperature: 1, seed: 5 };
    assert.deepEqual(await steps('random', drawn), await steps('random', drawn));
    assert.notDeepEqual(await steps('random', drawn), await steps(base, drawn));
    await unloaded('random');
  },

  async 'is looked into as the product looks into a release'() {
    const fleet = vllm.open({ replicas: [team.baseUrl], base });
    const tokens = [3, 40, 41, 42, 60, 7];
    const probe = async (name: string) => (await fleet.probe(name, tokens))[0]?.logprobs ?? [];
    await fleet.load({ name: 'random', path: at('random') });
    await fleet.load({ name: 'zero', path: at('zero') });
    const [random, zero, plain] = [await probe('random'), await probe('zero'), await probe(base)];
    assert.equal(plain.length, tokens.length);
    assert.deepEqual(zero, plain);
    assert.ok(
      random.slice(1).some((logprob, index) => Math.abs(Number(logprob) - Number(plain[index + 1])) > 0.01),
    );
    await fleet.unload('random');
    await fleet.unload('zero');
    await fleet.close();
  },

  async 'serves exactly the base through an adapter of zeros'() {
    await loaded('zero');
    assert.deepEqual(await steps('zero'), await steps(base));
    assert.deepEqual(
      await steps('zero', { temperature: 1, seed: 5 }),
      await steps(base, { temperature: 1, seed: 5 }),
    );
    await unloaded('zero');
  },

  async 'finds every row in its place: what changes weights alone changes no word'() {
    const weights = await readWeights(join(import.meta.dirname, 'models', base, 'model.safetensors'));
    const tensors = idleAdapter(weights);
    await writeAdapter(at('idle'), { r: 32, lora_alpha: 32 }, tensors);
    await loaded('idle');
    const difference = apart(await steps('idle'), await steps(base));
    console.log(`    within ${difference.toFixed(4)}`);
    assert.ok(difference < tolerance);
    await unloaded('idle');

    const shortOfOne = { ...tensors };
    for (const side of ['A', 'B'] as const) delete shortOfOne[keyOf('model.layers.1.self_attn.k_proj', side)];
    await writeAdapter(at('busy'), { r: 32, lora_alpha: 32 }, shortOfOne);
    await loaded('busy');
    assert.ok(apart(await steps('busy'), await steps(base)) > 2 * tolerance);
    await unloaded('busy');
  },

  async 'takes the base that the adapter names, or the request, or the policy'() {
    const config = { r: 8, lora_alpha: 16, base_model_name_or_path: '/models/tiny-ada/' };
    await writeAdapter(at('ada'), config, randomAdapter(1, 8, 0));
    await writeAdapter(
      at('other'),
      { ...config, base_model_name_or_path: 'meta/other' },
      randomAdapter(1, 8, 0),
    );
    await loaded('ada');
    await loaded('bo', at('other'), { base_model: 'tiny-bo' });
    await loaded('other');
    for (const [name, own] of [
      ['ada', 'tiny-ada'],
      ['bo', 'tiny-bo'],
      ['other', base],
    ] as const) {
      assert.deepEqual(await steps(name), await steps(own));
    }
    refused(await load('new', at('ada'), { base_model: 'tiny-bo' }), 400, /base_model is "tiny-bo"/);
    refused(await load('new', at('ada'), { base_model: 'other' }), 400, /base_model is "other"/);
    await Promise.all(['ada', 'bo', 'other'].map(unloaded));
  },

  async 'lets calls in flight finish before it unloads'() {
    await loaded('random');
    const long = { temperature: 1.5, seed: 1, max_tokens: 300, n: 8 };
    const calls = [1, 2].map(() => team.post({ model: 'random', messages, ...long, stream: true }));
    const responses = await Promise.all(calls);
    const end = unloaded('random');
    for (const response of responses) assert.match(await response.text(), /data: \[DONE\]\n\n$/);
    await end;
    assert.equal((await team.post({ model: 'random', messages })).status, 404);
    refused(await unload('random'), 404, /no LoRA adapter random/);
    refused(await unload(base), 404, /no LoRA adapter tiny-policy/);
  },

  async 'holds eight adapters, and each name once'() {
    const names = Array.from({ length: 8 }, (_, index) => `zero-${index}`);
    await Promise.all(names.map((name) => loaded(name, at('zero'))));
    refused(await load('zero-8', at('zero')), 400, /8 adapters are loaded already/);
    await unloaded('zero-7');
    const twice = await Promise.all([load('zero-8', at('zero')), load('zero-8', at('zero'))]);
    assert.deepEqual(new Set(twice.map(({ status }) => status)), new Set([200, 400]));
    refused(await load('zero-8', at('zero')), 400, /zero-8 is loaded already/);
    refused(await load(base, at('zero')), 400, /tiny-policy is loaded already/);
    await Promise.all([...names.slice(0, 7), 'zero-8'].map(unloaded));
  },

  async 'refuses what is no adapter, naming the field'() {
    refused(await load('new', at('nowhere')), 404, /lora_path holds no adapter_config\.json/);
    refused(await load('new', ''), 400, /lora_path is ""/);
    refused(await load('new', at('zero'), { load_inplace: true }), 400, /load_inplace is true/);
    const configs: [object, RegExp][] = [
      [{ r: 65 }, /r in adapter_config\.json is 65; expected a rank of at most 64/],
      [{ r: 4 }, /lora_A and lora_B of .* are 8×96 and 96×8; expected 4×96 and 96×4/],
      [{ lora_alpha: '16' }, /lora_alpha .* is "16"/],
      [{ target_modules: ['q_proj'] }, /k_proj.* is of a module that target_modules/],
      [{ use_dora: true }, /use_dora .* is true/],
    ];
    for (const [index, [config, message]] of configs.entries()) {
      const path = at(`config-${index}`);
      await writeAdapter(path, { r: 8, lora_alpha: 16, ...config }, randomAdapter(1, 8, 0));
      refused(await load('new', path), 400, message);
    }
    await cp(at('zero'), at('cut'), { recursive: true });
    await truncate(join(at('cut'), 'adapter_model.safetensors'), 20_000);
    refused(await load('new', at('cut')), 400, /lies at \[\d+,\d+\]/);
    await writeFile(join(at('cut'), 'adapter_config.json'), '[]');
    refused(await load('new', at('cut')), 400, /adapter_config\.json is not a JSON object/);
    assert.equal((await fetch(`${team.baseUrl}/load_lora_adapter`)).status, 404);
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(`ok  ${name}`);
}
const left = (await readdir(disk.path)).filter((name) => name.startsWith('tiny-team-'));
assert.deepEqual(left, [], 'the server left files behind');

async function mkdtempDisposable(): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'tiny-check-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}
