import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import t from 'tap';

t.test('a protocol is added with a file, its test, a line and a row, and passes what all pass', (t) => {
  const script = resolve(import.meta.dirname, '../../examples/add-a-protocol/try.ts');
  // Through `env`, because tap gives every child its loader by NODE_OPTIONS, and the compiler cannot run under it.
  const command = ['-i', `PATH=${process.env['PATH']}`, process.execPath, script];
  const { status, stdout, stderr } = spawnSync('env', command, { encoding: 'utf8' });
  t.equal(status, 0, stdout + stderr);
  const touched = stdout.split('\n').filter((line) => line.startsWith('touched '));
  t.strictSame(touched, [
    'touched src/gateway/protocols/shortest.ts',
    'touched test/gateway/shortest.test.ts',
    'touched src/gateway/protocols/index.ts',
    'touched docs/protocols.md',
  ]);
  t.end();
});
