import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { ARCHIVE_LIMITS, unpack } from '../../../src/policy/trainers/archive.ts';
import { checkAdapter } from '../../../src/policy/trainers/peft.ts';
import type { TinkerOptions } from '../../../src/policy/trainers/tinker.ts';
import {
  adapterArchive,
  adapterConfig,
  adapterFiles,
  adapterWeights,
  safetensorsOf,
  tarOf,
  type TarFile,
} from './archive-bytes.ts';
import { batchOf, groupOf, LEASE, RUN, siteOf } from './site.ts';

/** A run with one step behind it. */
async function trained(t: Test, options: Partial<TinkerOptions> = {}) {
  const site = await siteOf(t);
  const trainer = site.open(options);
  await trainer.ensureRun(RUN, LEASE);
  await trainer.submitGroups(batchOf(groupOf(1)));
  await trainer.step();
  return { ...site, trainer, target: join(site.directory, 'adapters', 'v1') };
}

t.test('a policy is exported as a checked adapter, whole or not at all', async (t) => {
  const { fake, trainer, target } = await trained(t, { apiKey: 'tml-secret' });
  const exported = await trainer.exportPolicy('v1', target);
  t.match(exported, { name: 'v1', step: 1, rank: 2, tensors: 2, targetModules: ['q_proj'] });
  t.match(exported.sha256, /^[0-9a-f]{64}$/);
  t.equal(exported.bytes, fake.archive.length);
  t.equal(fake.downloadHeaders['x-api-key'], 'tml-secret', 'the server itself gets the key');
  const config = JSON.parse(readFileSync(join(target, 'adapter_config.json'), 'utf8')) as object;
  t.match(config, { target_modules: ['q_proj'], r: 2 }, 'its modules are written out');
  t.strictSame(readdirSync(join(target, '..')), ['v1'], 'nothing is left beside it');
  fake.archive = adapterArchive([0, 0, 0, 0]);
  await t.rejects(trainer.exportPolicy('v2', `${target}-2`), {
    code: 'trainer_archive',
    message: /serve the base model/,
  });
  t.strictSame(readdirSync(join(target, '..')), ['v1']);
  fake.archive = tarOf(adapterFiles([1, 0, 0, 0]));
  t.match(await trainer.exportPolicy('v3', `${target}-3`), { rank: 2 }, 'plain tar under the same name');
});

t.test('a download follows redirects to allowed hosts only, and without the key', async (t) => {
  const seen: unknown[] = [];
  const elsewhere = createServer((request, response) => {
    seen.push(request.headers['x-api-key'], request.headers['authorization']);
    response.writeHead(200, { 'content-type': 'application/gzip' }).end(adapterArchive([1, 0, 0, 0]));
  });
  elsewhere.listen(0, '127.0.0.1');
  await once(elsewhere, 'listening');
  t.teardown(() => elsewhere.close());
  const host = `127.0.0.1:${(elsewhere.address() as AddressInfo).port}`;
  const refusing = await trained(t, { apiKey: 'tml-secret' });
  refusing.fake.redirect = `http://${host}/signed`;
  await t.rejects(refusing.trainer.exportPolicy('v1', refusing.target), {
    code: 'trainer_archive',
    message: /not an allowed host/,
  });
  t.strictSame(seen, []);
  const allowing = await trained(t, { apiKey: 'tml-secret', archiveHosts: [host] });
  allowing.fake.redirect = `http://${host}/signed`;
  t.match(await allowing.trainer.exportPolicy('v1', allowing.target), { rank: 2 });
  t.strictSame(seen, [undefined, undefined], 'the other host does not get the key');
  allowing.fake.redirect = 'file:///etc/passwd';
  await t.rejects(allowing.trainer.exportPolicy('v2', `${allowing.target}-2`), { code: 'trainer_archive' });
});

t.test('a download waits while the server packs, and ends when it goes round or is too large', async (t) => {
  const { fake, trainer, target } = await trained(t, { archive: { maxBytes: 4_000 } });
  let asked = 0;
  fake.fate = ({ path }) =>
    path.endsWith('/archive') && asked++ < 2 ? { status: 425, body: { detail: 'being created' } } : undefined;
  t.match(await trainer.exportPolicy('v1', target), { rank: 2 });
  t.equal(asked, 3);
  fake.archive = Buffer.alloc(5_000);
  await t.rejects(trainer.exportPolicy('v2', `${target}-2`), {
    code: 'trainer_archive',
    message: /4000 bytes/,
  });
  fake.redirect = `${fake.url}/api/v1/training_runs/x`;
  fake.fate = ({ path }) =>
    path === 'training_runs/x' ? { status: 302, body: { location: fake.redirect } } : undefined;
  await t.rejects(trainer.exportPolicy('v3', `${target}-3`), {
    code: 'trainer_archive',
    message: /redirects/,
  });
});

t.test('an archive may hold plain files below one folder, and nothing else', async (t) => {
  const directory = t.testdir();
  let count = 0;
  const opened = async (bytes: Buffer, limits = ARCHIVE_LIMITS) => {
    const place = join(directory, String(count++));
    mkdirSync(join(place, 'out'), { recursive: true });
    writeFileSync(join(place, 'archive'), bytes);
    try {
      return await unpack(join(place, 'archive'), join(place, 'out'), limits);
    } finally {
      t.notOk(existsSync(join(place, 'escaped')));
    }
  };
  t.strictSame(
    await opened(
      tarOf([
        { path: './folder/', type: '5' },
        { path: './folder/a', body: Buffer.from('x') },
      ]),
    ),
    ['folder/a'],
  );
  const bad: Record<string, TarFile[]> = {
    'a path upwards': [{ path: '../escaped', body: Buffer.from('x') }],
    'a path upwards, hidden': [{ path: 'a/../../escaped', body: Buffer.from('x') }],
    'an absolute path': [{ path: '/etc/escaped', body: Buffer.from('x') }],
    'a backslash': [{ path: '..\\escaped', body: Buffer.from('x') }],
    'a symbolic link': [{ path: 'a', type: '2', link: '/etc/passwd' }],
    'a link': [{ path: 'a', type: '1', link: 'b' }],
    'a device': [{ path: 'a', type: '3' }],
    'the same name twice': [
      { path: 'a', body: Buffer.from('x') },
      { path: './a', body: Buffer.from('y') },
    ],
    nothing: [],
  };
  for (const [name, files] of Object.entries(bad)) {
    await t.rejects(opened(gzipSync(tarOf(files))), { code: 'trainer_archive' }, name);
  }
  const zeros = gzipSync(tarOf([{ path: 'a', body: Buffer.alloc(1_000_000) }]));
  t.ok(zeros.length < 3_000);
  await t.rejects(opened(zeros, { maxBytes: 10_000, maxFiles: 4 }), { code: 'trainer_archive' }, 'a bomb');
  const many = tarOf(Array.from({ length: 5 }, (_, index) => ({ path: `f${index}` })));
  await t.rejects(opened(many, { maxBytes: 10_000, maxFiles: 4 }), { code: 'trainer_archive' }, 'many files');
  await t.rejects(
    opened(gzipSync(tarOf(adapterFiles([1]))).subarray(0, 60)),
    { code: 'trainer_archive' },
    'cut off',
  );
  await t.rejects(opened(Buffer.from('no archive at all'.repeat(99))), { code: 'trainer_archive' }, 'noise');
});

t.test('an adapter is checked in its config, keys, shapes and numbers', async (t) => {
  let count = 0;
  const root = t.testdir();
  const checked = (weights: Buffer, config = adapterConfig(), mayBeZero = false) => {
    const directory = join(root, String(count++));
    mkdirSync(directory);
    writeFileSync(join(directory, 'adapter_config.json'), config);
    writeFileSync(join(directory, 'adapter_model.safetensors'), weights);
    return checkAdapter(directory, 2, mayBeZero);
  };
  const good = adapterWeights([0, 0, 0, 1]);
  t.match(await checked(good), { rank: 2, tensors: 2 });
  t.match(
    await checked(adapterWeights([0, -0, 0, 0]), adapterConfig(), true),
    { tensors: 2 },
    'before a step',
  );
  const refused = async (why: RegExp, weights: Buffer, config?: Buffer) =>
    t.rejects(checked(weights, config), { code: 'trainer_archive', message: why });
  await refused(/serve the base model/, adapterWeights([0, -0, 0, 0]));
  await refused(/not finite/, adapterWeights([0, NaN, 0, 1]));
  await refused(/not finite/, adapterWeights([0, -Infinity, 0, 1]));
  await refused(/rank is 4/, good, adapterConfig({ r: 4 }));
  await refused(/not LORA/, good, adapterConfig({ peft_type: 'LOHA' }));
  await refused(/adapter_config/, good, Buffer.from('{'));
  await refused(
    /belongs to no LoRA layer/,
    safetensorsOf({ 'lm_head.weight': { shape: [1, 1], values: [1] } }),
  );
  const [a, b] = ['base_model.model.x.lora_A.weight', 'base_model.model.x.lora_B.weight'];
  await refused(/only one of/, safetensorsOf({ [b]: { shape: [1, 2], values: [1, 1] } }));
  await refused(/has shape/, safetensorsOf({ [a]: { shape: [1, 2], values: [1, 1] } }));
  await refused(/does not fill/, safetensorsOf({ [a]: { shape: [2, 2], values: [1, 1] } }));
  await refused(/does not fill/, good.subarray(0, -2));
  await refused(/header/, Buffer.alloc(64, 0xff));
});
