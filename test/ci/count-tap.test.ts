import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import t from 'tap';

const SCRIPT = join(resolve(import.meta.dirname, '../..'), '.ci/count-tap');

function count(tap: string): string {
  return spawnSync('awk', ['-f', SCRIPT], { input: tap, encoding: 'utf8' }).stdout;
}

const RUN = `
> consort@0.1.0 test
> tap

TAP version 14
1..2
# Subtest: test/one.test.ts
    # Subtest: a story that prints # { total: 99, pass: 99 }
        ok 1 - should be equal
        not ok 2 - should be equal
          ---
          message: "not ok 3 - a quoted one"
          ...
        1..2
        # { total: 50, pass: 50 }
    not ok 1 - a story # time=3ms
    1..1
not ok 1 - test/one.test.ts # time=52ms
# Subtest: test/two.test.ts
    ok 1 - fine
    ok 2 - later # SKIP no server
    1..2
ok 2 - test/two.test.ts # time=31ms

# No coverage generated
`;

t.test('the count of a run is the sum that tap gives at its end', (t) => {
  t.equal(count(`${RUN}# { total: 4, pass: 2, fail: 1, skip: 1 }\n# time=91.5ms\n`), '2 1\n');
  t.equal(count('TAP version 14\n1..1\nok 1 - test/a.test.ts\n# { total: 7, pass: 7 }\n'), '7 0\n');
  t.equal(count('TAP version 14\n1..1\nok 1 - test/a.test.ts\n# { total: 1, pass: 0, skip: 1 }\n'), '0 0\n');
  t.equal(count('1..1\nnot ok 1 - test/a.test.ts # TODO later\n# { total: 3, pass: 2, todo: 1 }\n'), '2 0\n');
  t.end();
});

t.test('a run that broke off counts as a failure', (t) => {
  t.equal(count(''), '0 1\n', 'nothing was written');
  t.equal(count('No valid test files found matching "test"\n'), '0 1\n', 'there were no tests');
  t.equal(count(RUN), '0 1\n', 'the sum is missing');
  t.equal(
    count('not ok 1 - test/a.test.ts\n# { total: 2, pass: 2 }\n'),
    '2 1\n',
    'a file failed without a failed assertion',
  );
  t.equal(count('Bail out! no server\n# { total: 2, pass: 2 }\n'), '2 1\n', 'the run was given up');
  t.end();
});
