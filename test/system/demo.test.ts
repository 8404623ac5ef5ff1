import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const isSupported = process.platform === 'linux' && process.arch === 'x64';

t.test(
  'the tour shows real models, what each is worth, and the team against its best member',
  { skip: isSupported ? false : 'the example ships its engine for Linux on x64', timeout: 300_000 },
  async (t) => {
    const cwd = mkdtempSync(join(tmpdir(), 'consort-demo-'));
    t.teardown(() => rmSync(cwd, { recursive: true, force: true }));
    const { NODE_OPTIONS: _options, ...env } = process.env;
    const args = [main, 'demo', '--once', '--port', '0', '--limit', '8'];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd, env });
    t.match(stdout, /0\.43 million parameters/);
    t.match(stdout, /draft\/tiny-ada +\S.*The answer is/, 'steps are shown as they end');
    t.match(stdout, /answer: .*The answer is/, 'the answer is shown as it comes');
    for (const system of ['tiny-vote', 'tiny-fuse']) t.match(stdout, new RegExp(`${system}: 8 tasks`));
    t.match(
      stdout,
      /tiny-bo +\d\.\d{3} \[\d\.\d{3}, \d\.\d{3}\] +#\d/,
      'strengths carry an interval and a rank',
    );
    t.equal(stdout.match(/The ranks (differ|alone and in the team do not differ)/g)?.length, 2);
    t.equal(stdout.match(/v\(N\) = .* alone with [34] samples and a vote/g)?.length, 2);
  },
);
