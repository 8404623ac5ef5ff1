import t from 'tap';
import type { Release } from '../../src/contract/release.ts';
import { ReleaseBook } from '../../src/policy/release/book.ts';
import { openStore } from '../../src/store/index.ts';
import { Site } from '../support/serve.ts';

const SHA = 'a'.repeat(64);

t.test('an operator lists the versions, makes one live by hand, and goes back', async (t) => {
  const site = new Site({ models: [{ id: 'small', provider: 'sim' }] });
  t.teardown(() => site.close());
  const url = `sqlite:${site.directory}/consort.db`;
  const store = await openStore(url);
  const book = new ReleaseBook(store.releases, Date.now);
  const probed = async (version: number): Promise<Release> => {
    const fields = { policy: 'small', version, servedAs: `small-v${version}`, base: 'b' };
    const artifact = { uri: 'file:/a', sha256: SHA };
    const opened = await book.open(
      { ...fields, artifact, trainedOn: { run: 'r', step: version } },
      'exported',
    );
    const verified = await book.move(opened, 'verified', 'v');
    return book.move(await book.move(verified, 'loaded', 'l'), 'probed', 'p');
  };
  await probed(1);
  await probed(2);
  const run = (...args: string[]) => site.run('releases', ...args, '--store', url).ended;
  t.match((await run()).stdout, /small\s+2\s+probed\s+r, step 2\s+p/);

  const promote = ['promote', '--policy', 'small', '--reason', 'a fix'];
  t.match(await run(...promote, '--version', '1'), { code: 0, stdout: /version 1 is live/ });
  t.match(await run(...promote, '--version', '2'), { code: 0, stdout: /version 2 is live/ });
  const back = ['rollback', '--policy', 'small', '--reason', 'clients complain'];
  t.same(JSON.parse((await run(...back, '--json')).stdout), { live: 1 });
  t.match((await store.releases.get('small', 2))?.history.at(-1), {
    to: 'rolled-back',
    reason: 'by hand: clients complain',
  });
  t.match(await run(...back), { code: 0, stdout: /clients get the configured model/ });
  t.match(await run(...back), { code: 1, stderr: /\[release_conflict\]/ });
  t.match(await run(...promote, '--version', '2'), {
    code: 1,
    stderr: /cannot become live.*\[release_move_illegal\]/,
  });
  t.match(await run(...promote, '--version', '9'), { code: 1, stderr: /no version 9 of policy small/ });
  t.match(await run('undo'), { code: 2, stderr: /say list, rollback or promote, not undo/ });
  t.match(await run('rollback', '--policy', 'small'), { code: 2, stderr: /--reason is required/ });
  await store.close();
});
