import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { ConsortError } from '../../../src/contract/errors.ts';
import type { Fate, Heard } from '../../support/tinker-server.ts';
import { batchOf, groupOf, LEASE, RUN, siteOf, type Site } from './site.ts';

const GROUPS = 3;
const CHUNKS = { maxDatums: 1 };
const child = fileURLToPath(new URL('train-child.ts', import.meta.url));

/** Trains on what the journal does not have yet, whatever goes wrong on the way; as the learner does. */
async function finish(site: Site): Promise<void> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const trainer = site.open({ chunks: CHUNKS });
    try {
      await trainer.ensureRun(RUN, LEASE);
      for (let index = 1; index <= GROUPS; index++) {
        if (await trainer.submitGroups(batchOf(groupOf(index)))) await trainer.step();
        if (index === 2) await trainer.saveState();
      }
      return;
    } catch (error) {
      if (!ConsortError.is(error) || !error.retryable) throw error;
    } finally {
      await trainer.close();
    }
  }
  throw new Error('it does not come to an end');
}

/** Whatever the server lost after the last step, the next operation notices, and it comes back. */
async function goOn(site: Site): Promise<void> {
  const trainer = site.open({ chunks: CHUNKS });
  await trainer.ensureRun(RUN, LEASE);
  await trainer.score([[1, 2, 3]]);
}

/** The steps of a run in which nothing went wrong. */
async function undisturbed(t: Test): Promise<{ steps: readonly string[]; requests: number[] }> {
  const site = await siteOf(t);
  await finish(site);
  const scratch = new Set(
    site.fake.heard.filter(({ path }) => path === 'unload_model').map(({ model }) => model),
  );
  const begin = site.fake.heard.findLastIndex(({ model }) => model !== undefined && scratch.has(model)) + 1;
  const requests = site.fake.heard.flatMap(({ index, path }) =>
    index >= begin && path !== 'session_heartbeat' ? [index] : [],
  );
  return { steps: site.fake.steps, requests };
}

/** Does `deed` at the n-th request that is no heartbeat, once. */
function at(site: Site, index: number, deed: () => Promise<Fate>): void {
  let isDone = false;
  let beats = 0;
  site.fake.fate = (heard: Heard) => {
    if (heard.path === 'session_heartbeat') beats += 1;
    if (isDone || heard.index - beats !== index) return undefined;
    isDone = true;
    return deed();
  };
}

t.test('a learner killed at any request of its steps is brought back, each step taken once', async (t) => {
  const { steps, requests } = await undisturbed(t);
  t.equal(steps.length, GROUPS);
  t.ok(requests.length > 20, `${requests.length} places to be killed at`);
  for (const index of requests) {
    // Before the server carries it out, or after and without an answer.
    const fate = index % 2 === 0 ? 'lost' : 'unanswered';
    const site = await siteOf(t);
    const process = spawn(globalThis.process.execPath, [child, site.fake.url, site.directory, `${GROUPS}`], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const gone = once(process, 'exit');
    at(site, index, async () => {
      process.kill('SIGKILL');
      await gone;
      return fate;
    });
    await gone;
    t.equal(process.signalCode, 'SIGKILL', `request ${index}, ${fate}`);
    await finish(site);
    t.strictSame(site.fake.steps, steps);
  }
});

t.test('a server killed at any request is trained on again, each step taken once', async (t) => {
  const { steps, requests } = await undisturbed(t);
  for (const index of requests) {
    for (const lost of ['engine', 'nothing'] as const) {
      const site = await siteOf(t);
      const fate = index % 2 === 0 ? 'lost' : 'unanswered';
      at(site, index, async () => {
        setImmediate(() => void site.fake.kill().then(() => site.fake.restart(lost)));
        return fate;
      });
      await finish(site);
      await goOn(site);
      t.strictSame(site.fake.steps, steps, `request ${index}, ${fate}, lost: ${lost}`);
    }
  }
});

t.test('without numbers that count once, a doubtful step is taken on a new model', async (t) => {
  const { steps, requests } = await undisturbed(t);
  for (const index of requests) {
    const site = await siteOf(t, { replaySafe: false });
    at(site, index, async () => 'unanswered');
    await finish(site);
    t.strictSame(site.fake.steps, steps, `request ${index}`);
  }
});
