import t, { type Test } from 'tap';
import { ConsortError } from '../../../src/contract/errors.ts';
import { fleets } from '../../../src/policy/serving/index.ts';
import { vllm } from '../../../src/policy/serving/vllm.ts';
import type { FleetOptions } from '../../../src/policy/serving/fleet.ts';
import { Failure, FakeVllm, type FakeVllmOptions } from '../../support/vllm.ts';

const V1 = { name: 'policy-v000001', path: '/loras/policy-v000001' };
const V2 = { name: 'policy-v000002', path: '/loras/policy-v000002' };
const files = { [V1.path]: { rank: 8 }, [V2.path]: { rank: 8 } };

/** Replicas and the fleet of them; all are closed with the test. */
async function start(t: Test, each: readonly FakeVllmOptions[], more: Partial<FleetOptions> = {}) {
  const replicas = await Promise.all(each.map((options) => FakeVllm.start({ files, ...options })));
  const base = replicas[0]?.base ?? '';
  const fleet = vllm.open({ replicas: replicas.map(({ url }) => url), base, ...more });
  t.teardown(async () => {
    await fleet.close();
    await Promise.all(replicas.map((replica) => replica.close()));
  });
  return { fleet, replicas };
}

const loads = (replica: FakeVllm | undefined) =>
  replica?.requests.filter(({ route }) => route.endsWith('/load_lora_adapter')) ?? [];

t.test('loads an adapter on every replica, once, and never in place', async (t) => {
  t.ok(fleets.includes(vllm));
  const { fleet, replicas } = await start(t, [{}, {}, {}]);
  await fleet.load(V1);
  await fleet.load(V2);
  t.ok(replicas.every((replica) => replica.names().join() === `${V1.name},${V2.name}`));
  t.same(loads(replicas[0])[0]?.body, { lora_name: V1.name, lora_path: V1.path });
  t.same(
    (await fleet.loaded()).map(({ adapters }) => adapters),
    replicas.map(() => [V1, V2].map((adapter) => ({ ...adapter, base: fleet.base }))),
  );
  await fleet.unload(V1.name);
  t.ok(replicas.every((replica) => replica.names().join() === V2.name));
  await fleet.unload(V1.name);
  await t.rejects(fleet.verify(V1), { code: 'serving_not_loaded', retryable: true });
  await fleet.verify(V2);
  const bodies = replicas.flatMap(({ requests }) => requests.map(({ body }) => JSON.stringify(body)));
  t.notOk(bodies.some((body) => body.includes('inplace')));
});

t.test('a name that exists counts as loaded only where it stands for our path', async (t) => {
  const { fleet, replicas } = await start(t, [{}, {}]);
  await fleet.load(V1);
  await fleet.load(V1);
  t.equal(loads(replicas[0]).length, 2, 'the second is a 400 and is looked up');
  await t.rejects(fleet.load({ ...V1, path: V2.path }), {
    code: 'serving_name_taken',
    message: /those at \/loras\/policy-v000001, not at \/loras\/policy-v000002/,
  });
  t.same(replicas[0]?.names(), [V1.name], 'and is left as it is');
});

t.test('what every replica refuses alike has its own name', async (t) => {
  const cases: readonly [FakeVllmOptions, string, RegExp][] = [
    [{ files: {} }, 'serving_path_missing', /\/loras\/policy-v000001/],
    [{ maxRank: 4 }, 'serving_rank_too_big', /rank 8 is greater than max_lora_rank 4/],
    [{ maxRank: 4, legacy: true }, 'serving_rank_too_big', /rank 8/],
    [{ runtimeLoading: false }, 'serving_disabled', /at run time/],
    [{ apiKey: 'k' }, 'serving_status', /HTTP 401 to .*Unauthorized/],
  ];
  for (const [options, code, message] of cases) {
    const { fleet } = await start(t, [options, options]);
    await t.rejects(fleet.load(V1), { code, message }, code);
  }
  const { fleet } = await start(t, [{ apiKey: 'k' }], { apiKey: 'k' });
  await fleet.load(V1);
  await t.rejects(fleet.load({ name: 'x', path: '' }), {
    code: 'serving_refused',
    message: /must be provided/,
  });
});

t.test('a fleet in parts names each replica that failed, and mends when they do', async (t) => {
  const { fleet, replicas } = await start(t, [{}, { files: {} }, { maxRank: 4 }]);
  const error: unknown = await fleet.load(V1).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  t.match(error, { code: 'serving_partial', retryable: false });
  t.ok(ConsortError.is(error) && error.message.startsWith(`Only 1 of 3 replicas serve ${V1.name}`));
  for (const address of fleet.replicas.slice(1)) t.match(String(error), address);
  t.same(replicas[0]?.names(), [V1.name], 'what is loaded stays');
  await t.rejects(fleet.verify(V1), { code: 'serving_partial' });
  replicas[1]?.files.set(V1.path, { rank: 8 });
  replicas[2]?.files.set(V1.path, { rank: 2 });
  await fleet.load(V1);
  await fleet.verify(V1);
});

t.test('a restart forgets adapters, and loading again brings them back', async (t) => {
  const { fleet, replicas } = await start(t, [{}, {}]);
  await fleet.load(V1);
  replicas[1]?.restart();
  await t.rejects(fleet.verify(V1), { code: 'serving_partial', retryable: true });
  await fleet.load(V1);
  await fleet.verify(V1);
});

t.test('a replica that says yes and does nothing, or lies over another base, is caught', async (t) => {
  const { fleet, replicas } = await start(t, [{}]);
  replicas[0]!.forgetful = true;
  await t.rejects(fleet.load(V1), { code: 'serving_not_loaded' });
  const other = await start(t, [{ base: 'Qwen/Qwen3-4B' }], { base: 'Qwen/Qwen3-27B' });
  await t.rejects(other.fleet.load(V1), { code: 'serving_wrong_base', message: /over Qwen\/Qwen3-4B/ });
});

t.test('a replica that is away, deaf or broken fails in time', async (t) => {
  const timeouts = { connectMs: 500, loadMs: 200, listMs: 200, probeMs: 200 };
  const { fleet, replicas } = await start(t, [{}, {}], { timeouts });
  await fleet.load(V1);
  replicas[0]!.deaf = true;
  const began = performance.now();
  await t.rejects(fleet.load(V2), { code: 'serving_partial', message: /no answer within 200 ms/ });
  t.ok(performance.now() - began < 2_000);
  replicas[0]!.deaf = false;
  for (const replica of replicas) replica.broken = new Failure(503, 'x', 'engine is dead');
  await t.rejects(fleet.load(V2), {
    code: 'serving_status',
    message: /503 .*engine is dead/,
    retryable: true,
  });
  await t.rejects(fleet.loaded(), { code: 'serving_status' });
  const nobody = vllm.open({ replicas: ['http://127.0.0.1:1/v1'], base: 'b', timeouts });
  await t.rejects(nobody.load(V1), { code: 'serving_unreachable', message: /ECONNREFUSED/ });
  await nobody.close();
});

t.test('a probe gives the log-prob of every token of the prompt', async (t) => {
  const { fleet, replicas } = await start(t, [{}, {}]);
  await fleet.load(V1);
  const tokens = [5, 9, 9, 2];
  for (const [name, path] of [[V1.name, V1.path] as const, [fleet.base, null] as const]) {
    const probes = await fleet.probe(name, tokens);
    t.same(
      probes.map(({ logprobs }) => logprobs),
      replicas.map((replica) => replica.logprobs(path, tokens)),
    );
  }
  t.match(replicas[0]?.requests.at(-1)?.body, { prompt: tokens, max_tokens: 1, temperature: 1, top_p: 1 });
  await t.rejects(fleet.probe('nobody', tokens), { code: 'serving_status', message: /does not exist/ });
});
