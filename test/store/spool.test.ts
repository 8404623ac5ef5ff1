import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { ConsortError } from '../../src/contract/errors.ts';
import type { LedgerEntry } from '../../src/contract/store.ts';
import { openStore } from '../../src/store/index.ts';
import { Spool, type SpoolOptions } from '../../src/store/spool.ts';
import { outcomeEntry, rewardEntry } from '../conformance/store-fixtures.ts';

/** A ledger that can be away, slow, or refuse; it keeps outcomes once, as a real one does. */
function ledgerOf() {
  const kept: LedgerEntry[] = [];
  const ids = new Set<string>();
  const ledger = {
    kept,
    isAway: false,
    calls: 0,
    refused: '',
    largest: 0,
    async append(entries: readonly LedgerEntry[]) {
      ledger.calls += 1;
      ledger.largest = Math.max(ledger.largest, entries.length);
      await new Promise((resolve) => setImmediate(resolve));
      if (ledger.isAway) throw new ConsortError('store_unavailable', ['away']);
      if (entries.some((entry) => idOf(entry) === ledger.refused))
        throw new ConsortError('internal', ['refused']);
      for (const entry of entries) {
        if (entry.kind === 'outcome' && ids.has(entry.outcome.id)) continue;
        ids.add(idOf(entry));
        kept.push(entry);
      }
    },
  };
  return ledger;
}

const idOf = (entry: LedgerEntry) => (entry.kind === 'outcome' ? entry.outcome.id : entry.reward.id);
const optionsOf = (directory: string, ledger: SpoolOptions['ledger']): SpoolOptions => ({
  directory,
  maxBytes: 67_108_864,
  instance: 'test',
  ledger,
});

/** All files of a spool directory, with their text. */
function filesIn(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .map((file) => readFileSync(join(file.parentPath, file.name), 'utf8'));
}

/** A spool directory whose process is dead. */
function deadSpool(root: string, text: string, name = `${hostname()}_4194999_12345-678_old_1`): string {
  const directory = join(root, name);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, '000000001.ndjson'), text);
  return directory;
}

t.test('an entry is in the file when append returns, and in the ledger soon after', async (t) => {
  const directory = t.testdir();
  const ledger = ledgerOf();
  const spool = Spool.open(optionsOf(directory, ledger));
  const entries = Array.from({ length: 600 }, () => outcomeEntry('p'));
  for (const entry of entries) t.ok(spool.append(entry));
  t.equal(filesIn(directory).join('').trimEnd().split('\n').length, 600);
  t.equal(spool.counters.pending, 600);
  await spool.idle();
  t.same(ledger.kept, entries);
  t.ok(ledger.largest <= 256, 'in bounded batches');
  t.match(spool.counters, { pending: 0, dropped: 0, bytes: 0 });
  await spool.close(1_000);
  t.same(readdirSync(directory), [], 'nothing is left behind');
});

t.test('waits for a ledger that is away, in order, and reads back what memory does not hold', async (t) => {
  const ledger = ledgerOf();
  ledger.isAway = true;
  const spool = Spool.open(optionsOf(t.testdir(), ledger));
  const text = 'x'.repeat(20_000);
  const entries = Array.from({ length: 700 }, () => outcomeEntry('p', { answer: text }));
  for (const entry of entries.slice(0, 600)) spool.append(entry);
  t.ok(spool.counters.bytes > 2 * 4_194_304, 'more than memory holds, in several files');
  const last = entries[10]?.outcome;
  t.same(await spool.find(last?.id ?? ''), last);
  ledger.isAway = false;
  for (const entry of entries.slice(600)) {
    spool.append(entry);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await spool.idle();
  t.same(ledger.kept.map(idOf), entries.map(idOf));
  t.match(spool.counters, { pending: 0, bytes: 0, torn: 0, dropped: 0 });
  t.equal(await spool.find(last?.id ?? ''), undefined, 'the ledger has it now');
  await spool.close(1_000);
});

t.test('drops and counts the newest when the files are full, and goes on when there is room', async (t) => {
  const ledger = ledgerOf();
  ledger.isAway = true;
  const dropped: string[] = [];
  const onDrop: SpoolOptions['onDrop'] = (reason, entry) => dropped.push(`${reason} ${idOf(entry)}`);
  const directory = t.testdir();
  const spool = Spool.open({ ...optionsOf(directory, ledger), maxBytes: 65_536, onDrop });
  const entries = Array.from({ length: 200 }, () => outcomeEntry('p'));
  const taken = entries.filter((entry) => spool.append(entry));
  t.ok(taken.length > 20 && taken.length < 100);
  t.ok(filesIn(directory).join('').length <= 65_536);
  t.equal(spool.counters.dropped, 200 - taken.length);
  t.same(
    dropped,
    entries.slice(taken.length).map((entry) => `full ${idOf(entry)}`),
  );
  ledger.isAway = false;
  await spool.idle();
  t.same(ledger.kept, taken);
  t.ok(spool.append(outcomeEntry('p')));
  await spool.close(1_000);
  t.equal(ledger.kept.length, taken.length + 1);
  t.notOk(spool.append(outcomeEntry('p')), 'closed');
});

t.test('loses only the entry that the ledger refuses for good', async (t) => {
  const ledger = ledgerOf();
  const entries = Array.from({ length: 50 }, () => outcomeEntry('p'));
  ledger.refused = entries[20]?.outcome.id ?? '';
  const reasons: string[] = [];
  const spool = Spool.open({ ...optionsOf(t.testdir(), ledger), onDrop: (reason) => reasons.push(reason) });
  for (const entry of entries) spool.append(entry);
  await spool.idle();
  t.equal(ledger.kept.length, 49);
  t.same(reasons, ['refused']);
  await spool.close(1_000);
});

t.test(
  'replays the spools of dead processes, but for a torn line, and leaves the others alone',
  async (t) => {
    const root = t.testdir();
    const entries = [outcomeEntry('p'), rewardEntry('p', 'o', 1), outcomeEntry('p')];
    const lines = entries.map((entry) => JSON.stringify(entry)).join('\n');
    const dead = deadSpool(root, `${lines}\n{"kind":"outcome","po`);
    const foreign = deadSpool(root, lines, 'another-host_1_12345-678_old_1');
    const own = process.platform === 'linux' ? readFileSync('/proc/self/stat', 'utf8').split(' ')[21] : '';
    const boot = own && readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8);
    const living = deadSpool(
      root,
      lines,
      `${hostname()}_${process.pid}_${own ? `${boot}-${own}` : 'unknown'}_b_1`,
    );
    const reused = own ? deadSpool(root, `${lines}\n`, `${hostname()}_${process.pid}_${boot}-1_b_2`) : '';
    const ledger = ledgerOf();
    const spool = Spool.open(optionsOf(root, ledger));
    await spool.idle();
    const expected = [...entries.map(idOf), ...(reused ? ['o/feedback:user'] : [])];
    t.same(ledger.kept.map(idOf).toSorted(), expected.toSorted());
    t.match(spool.counters, { replayed: reused ? 6 : 3, torn: 1, pending: 0, bytes: 0 });
    t.notOk(existsSync(dead));
    t.ok(existsSync(foreign), 'nobody here can tell whether another host lives');
    t.ok(existsSync(living), 'this process lives');
    t.notOk(reused && existsSync(reused), 'a process with the same id that started at another time is dead');
    await spool.close(1_000);
  },
);

t.test('two that start together share what a dead process left', async (t) => {
  const root = t.testdir();
  const entries = Array.from({ length: 30 }, () => outcomeEntry('p'));
  const dead = deadSpool(root, '');
  entries.forEach((entry, i) => appendFileSync(join(dead, `${i}.ndjson`), `${JSON.stringify(entry)}\n`));
  const ledgers = [ledgerOf(), ledgerOf()];
  const spools = ledgers.map((ledger) => Spool.open(optionsOf(root, ledger)));
  await Promise.all(spools.map((spool) => spool.idle()));
  const kept = ledgers.flatMap((ledger) => ledger.kept.map(idOf));
  t.same(kept.toSorted(), entries.map(idOf).toSorted());
  await Promise.all(spools.map((spool) => spool.close(1_000)));
});

t.test('closes in time when the ledger is away, and the next one replays', async (t) => {
  const root = t.testdir();
  const away = ledgerOf();
  away.isAway = true;
  const first = Spool.open(optionsOf(root, away));
  const entries = Array.from({ length: 5 }, () => outcomeEntry('p'));
  for (const entry of entries) first.append(entry);
  const began = performance.now();
  await first.close(100);
  t.ok(performance.now() - began < 1_000);
  const ledger = ledgerOf();
  const second = Spool.open(optionsOf(root, ledger));
  await second.idle();
  t.same(ledger.kept, entries);
  t.equal(second.counters.replayed, 5);
  await second.close(1_000);
  t.same(readdirSync(root), []);
});

t.test('says which directory cannot be used', (t) => {
  const file = join(t.testdir({ file: '' }), 'file');
  t.throws(() => Spool.open(optionsOf(file, ledgerOf())), { code: 'file_unreadable', message: file });
  t.end();
});

t.test('a killed process loses nothing and repeats nothing', async (t) => {
  const root = t.testdir();
  const url = `sqlite:${join(root, 'consort.db')}`;
  const directory = join(root, 'spool');
  const child = spawn(process.execPath, [
    fileURLToPath(new URL('./spool-child.ts', import.meta.url)),
    url,
    directory,
    'p',
  ]);
  t.teardown(() => child.kill('SIGKILL'));
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
    if (said.length > 37 * 3_000) child.kill('SIGKILL');
  });
  await once(child, 'close');
  const promised = said.slice(0, said.lastIndexOf('\n')).split('\n');
  t.equal(child.signalCode, 'SIGKILL');
  const store = await openStore(url);
  const before = (await store.ledger.read('p', '0-0', 1_000_000)).length;
  const spool = Spool.open(optionsOf(directory, store.ledger));
  await spool.idle();
  t.ok(spool.counters.replayed > 0, 'some were on their way');
  const kept = (await store.ledger.read('p', '0-0', 1_000_000)).map(({ entry }) => idOf(entry));
  const known = new Set(kept);
  t.equal(kept.length, known.size, 'nothing twice');
  t.same(
    promised.filter((id) => !known.has(id)),
    [],
    'nothing lost',
  );
  t.ok(before > 0 && kept.length > before, 'the crash was in the middle');
  await spool.close(1_000);
  await store.close();
});
