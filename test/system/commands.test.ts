import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { json, obeying, startUpstream } from '../support/upstream.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const vectors = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../fixtures/vectors/${name}.json`, import.meta.url), 'utf8'));

function directory(t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'consort-cli-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** No real server of this machine must be found, and no key. */
const environment = (() => {
  const { NODE_OPTIONS: _options, OPENAI_API_KEY: _a, ANTHROPIC_API_KEY: _b, ...rest } = process.env;
  return { ...rest, OLLAMA_HOST: '127.0.0.1:9', VLLM_BASE_URL: 'http://127.0.0.1:9/v1' };
})();

function consort(cwd: string, args: readonly string[], input = '') {
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const options = { cwd, env: environment, maxBuffer: 1e8 };
    const child = execFile(process.execPath, [main, ...args], options, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
    });
    child.stdin?.end(input);
  });
}

t.test('grade gives every vector of its verifiers the expected reward', async (t) => {
  const { vectors: rows } = vectors('verifiers') as {
    vectors: {
      verifier: string;
      prediction: string;
      gold: unknown;
      params?: object;
      expected: number | null;
    }[];
  };
  for (const verifier of ['exact_match', 'multiple_choice', 'numeric']) {
    const own = rows.filter((row) => row.verifier === verifier);
    const input = own
      .map(({ prediction, gold, params }) => JSON.stringify({ prediction, gold, params }))
      .join('\n');
    const id = verifier.replaceAll('_', '-');
    const { stdout, code } = await consort(tmpdir(), ['grade', '--verifier', id], input);
    const rewards = stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { reward: number | null }).reward);
    t.equal(code, 0);
    t.same(
      rewards,
      own.map(({ expected }) => expected),
      `${own.length} rows of ${id}`,
    );
  }
});

t.test('shapley prints every index of a game, as expected', async (t) => {
  const { games } = vectors('shapley') as {
    games: { players: string[]; v: object; expected: Record<string, unknown> }[];
  };
  const game = games.find(({ players }) => players.length === 4)!;
  const cwd = directory(t);
  writeFileSync(join(cwd, 'game.json'), JSON.stringify({ players: game.players, v: game.v }));
  const { stdout, code } = await consort(cwd, ['shapley', '--game', 'game.json', '--json']);
  const found = JSON.parse(stdout) as Record<string, unknown>;
  t.equal(code, 0);
  const flat = (value: unknown): number[] => [value].flat(3) as number[];
  for (const [index, expected] of Object.entries(game.expected)) {
    const [got, want] = [flat(found[index]), flat(expected)];
    t.equal(got.length, want.length, index);
    t.ok(
      got.every((value, i) => Math.abs(value - want[i]!) < 1e-12),
      `${index} to 1e-12`,
    );
  }
});

t.test('an incomplete game is refused, and the missing coalitions are named', async (t) => {
  const cwd = directory(t);
  writeFileSync(join(cwd, 'game.json'), JSON.stringify({ players: ['a', 'b'], v: { '': 0, a: 1, b: 1 } }));
  const { code, stderr } = await consort(cwd, ['shapley', '--game', 'game.json']);
  t.equal(code, 1);
  t.match(stderr, /a,b/);
  t.match(stderr, /game_invalid/);
});

t.test('check lists every problem with path and remedy, and exits 1', async (t) => {
  const cwd = directory(t);
  const config =
    'models: [{ id: a, provider: sim, apiKey: secret-in-clear }]\nsystems: [{ id: s, pool: p, protocol: vot }]\n';
  writeFileSync(join(cwd, 'consort.yaml'), config);
  const { code, stdout } = await consort(cwd, ['check', '--config', 'consort.yaml']);
  t.equal(code, 1);
  t.match(stdout, /models\.a\.apiKey: a secret is written out/);
  t.match(
    stdout,
    /systems\.s\.protocol: there is no protocol vot\n {2}→ Use one of: single, vote, debate, fuse, /,
  );
  t.notMatch(stdout, /secret-in-clear/);
});

t.test('check --probe shows what each endpoint can do beside what the file says', async (t) => {
  const cwd = directory(t);
  const upstream = await startUpstream();
  t.teardown(() => upstream.close());
  upstream.play(obeying(([first]) => first!, 'ok'));
  const models = [
    { id: 'a', provider: 'openai-compatible', baseUrl: upstream.url, capabilities: { tokenIds: true } },
    { id: 'b', provider: 'sim' },
  ];
  writeFileSync(join(cwd, 'consort.yaml'), JSON.stringify({ models }));
  const check = ['check', '--config', 'consort.yaml', '--probe'];
  const shown = await consort(cwd, check);
  t.equal(shown.code, 0);
  t.match(shown.stdout, /\n {2}choice +- +structured_outputs +said qx7/);
  t.match(shown.stdout, /\n {2}tokenIds +yes +no +DIFFERS: no token_ids/);
  t.match(shown.stdout, /b: simulated/);
  const { probes } = JSON.parse((await consort(cwd, [...check, '--json'])).stdout) as { probes: unknown };
  t.match(probes, [
    {
      model: 'a',
      configured: { tokenIds: true },
      capabilities: { tokenIds: false, choice: 'structured_outputs' },
    },
    { model: 'b', simulated: true },
  ]);
  upstream.play(() => json({ error: { message: 'no such key' } }, 401));
  const denied = await consort(cwd, check);
  t.equal(denied.code, 1);
  t.match(denied.stdout, /a: Model a answered HTTP 401: no such key/);
});

t.test('wrong usage exits with 2, and says what would be right', async (t) => {
  const cwd = directory(t);
  const unknown = await consort(cwd, ['evil']);
  t.equal(unknown.code, 2);
  t.match(unknown.stderr, /There is no command evil/);
  const flag = await consort(cwd, ['eval', '--sytem', 'vote']);
  t.equal(flag.code, 2);
  const system = await consort(cwd, ['eval', '--system', 'nope', '--tasks', 'sim']);
  t.equal(system.code, 2);
  t.match(system.stderr, /vote, debate, fuse/);
  const limit = await consort(cwd, ['eval', '--system', 'vote', '--tasks', 'sim', '--limit', 'x']);
  t.match(limit.stderr, /--limit takes a number from 1/);
});

t.test('keys new makes a key whose hash it prints', async (t) => {
  const { stdout } = await consort(tmpdir(), ['keys', 'new', '--name', 'app', '--json']);
  const { key, sha256 } = JSON.parse(stdout) as { key: string; sha256: string };
  const digest = Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(key))).toString('hex');
  t.equal(digest, sha256);
});

t.test('an interrupted eval goes on where it stopped, and ends with the same numbers', async (t) => {
  const cwd = directory(t);
  const args = ['eval', '--system', 'debate', '--tasks', 'sim', '--limit', '80', '--seed', '5', '--json'];
  const child = spawn(process.execPath, [main, ...args], { cwd, env: environment, stdio: 'ignore' });
  const journal = () => {
    try {
      const [file = ''] = readdirSync(join(cwd, '.consort/sweeps'));
      return readFileSync(join(cwd, '.consort/sweeps', file), 'utf8').split('\n').length - 1;
    } catch {
      return 0;
    }
  };
  const exit = once(child, 'exit');
  while (journal() < 10) await sleep(20);
  child.kill('SIGINT');
  const [code] = await exit;
  t.equal(code, 1);
  const before = journal();
  t.ok(before >= 10 && before < 80, `${before} prompts were kept`);
  const resumed = await consort(cwd, args);
  const fresh = await consort(directory(t), args);
  const numbers = (text: string) => {
    const { estimates, n } = JSON.parse(text) as { n: number; estimates: { at: number }[] };
    return { n, estimates: estimates.map(({ at: _at, ...rest }) => rest) };
  };
  t.equal(numbers(resumed.stdout).n, 80);
  t.same(numbers(resumed.stdout), numbers(fresh.stdout));
});
