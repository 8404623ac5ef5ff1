/** consort releases: what versions the policies have, and the two moves that an operator makes by hand. */
import { ConsortError } from '../contract/errors.ts';
import type { Release } from '../contract/release.ts';
import type { Store } from '../contract/store.ts';
import { ReleaseBook } from '../policy/release/book.ts';
import { openStore } from '../store/index.ts';
import { integerFlag, requiredFlag, textFlag, type Command, type Flags } from './command.ts';
import { clock } from './natives.ts';
import { loadSettings } from './settings.ts';
import { table } from './terminal.ts';

function listText(releases: readonly Release[]): string {
  if (releases.length === 0) return 'There are no releases.';
  const rows = releases.map(({ policy, version, stage, trainedOn, history }) => {
    return [policy, version, stage, `${trainedOn.run}, step ${trainedOn.step}`, history.at(-1)?.reason ?? ''];
  });
  return table(['policy', 'version', 'stage', 'trained', 'last reason'], rows);
}

/** Does what is asked; gives the version that clients get now, undefined for the configured model. */
async function move(action: string, book: ReleaseBook, flags: Flags): Promise<Release | undefined> {
  const policy = requiredFlag(flags, 'policy');
  const reason = `by hand: ${requiredFlag(flags, 'reason')}`;
  if (action === 'rollback') return book.rollBack(policy, reason);
  const version = integerFlag(flags, 'version', 1, Number.MAX_SAFE_INTEGER);
  if (version === undefined) throw new ConsortError('usage', ['--version is required']);
  return book.promote(await book.get(policy, version), reason);
}

async function run(store: Store, action: string, flags: Flags): Promise<void> {
  if (action === 'list') {
    const releases = await store.releases.list(textFlag(flags, 'policy'));
    process.stdout.write(`${flags['json'] ? JSON.stringify({ releases }) : listText(releases)}\n`);
    return;
  }
  const live = await move(action, new ReleaseBook(store.releases, () => clock.now()), flags);
  const now = live ? `version ${live.version} is live` : 'clients get the configured model';
  process.stdout.write(`${flags['json'] ? JSON.stringify({ live: live?.version ?? null }) : now}\n`);
}

export const releases: Command = {
  name: 'releases',
  summary: 'the versions of the policies: list them, roll the live one back, make one live',
  usage:
    '[list [--policy ALIAS] | rollback --policy ALIAS --reason TEXT | ' +
    'promote --policy ALIAS --version N --reason TEXT] [--store URL]',
  options: {
    policy: { type: 'string' },
    version: { type: 'string' },
    reason: { type: 'string' },
    store: { type: 'string' },
  },
  async run(invocation) {
    const { flags, positionals } = invocation;
    const [action = 'list'] = positionals;
    if (!['list', 'rollback', 'promote'].includes(action)) {
      throw new ConsortError('usage', [`say list, rollback or promote, not ${action}`]);
    }
    const { config } = await loadSettings(invocation);
    const store = await openStore(config.store.url);
    try {
      await run(store, action, flags);
    } finally {
      await store.close();
    }
    return 0;
  },
};
