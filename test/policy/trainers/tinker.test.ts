import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { WriterLease } from '../../../src/policy/trainers/trainer.ts';
import { batchOf, groupOf, LEASE, QUICK, RUN, siteOf, training } from './site.ts';

t.test('a step is journaled, sent in order, checked, and taken', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open({ chunks: { maxDatums: 1 } });
  t.strictSame((await trainer.probe()).baseModels, ['tiny']);
  const begun = await trainer.ensureRun(RUN, LEASE);
  t.equal(begun.step, 0);
  const before = site.fake.heard.length;
  const submission = await trainer.submitGroups(batchOf(groupOf(1)));
  t.match(submission, { step: 1, groupIds: ['g1'], datums: 2, chunks: 2, gap: { tokens: 4, mean: 0 } });
  const done = await trainer.step();
  t.match(done, { step: 1, groupIds: ['g1'] });
  t.ok((done.metrics['skyrl.ai/grad_norm'] ?? 0) > 0);
  const sent = site.fake.heard.slice(before).map(({ path, seq }) => `${path} ${seq ?? ''}`.trim());
  t.strictSame(
    sent.filter((line) => line !== 'session_heartbeat'),
    [
      'forward_backward 1',
      'forward_backward 2',
      'retrieve_future',
      'retrieve_future',
      'optim_step 3',
      'retrieve_future',
    ],
    'every chunk is acknowledged, and its result checked, before the optimiser moves',
  );
  t.equal(await trainer.submitGroups(batchOf(groupOf(1))), undefined, 'a group is trained on once');
  await t.rejects(trainer.step(), RangeError);
});

t.test('training moves the log-probs to the better rollout', async (t) => {
  const site = await siteOf(t, { codec: 'protobuf', reduction: 'datum-mean' });
  const trainer = site.open();
  await trainer.ensureRun(RUN, LEASE);
  t.match(trainer.dialect, { reduction: 'datum-mean', codec: 'protobuf', replaySafe: true });
  const sequences = [0, 1].map((rollout) => [101, 5, 10 + rollout, 20 + rollout]);
  const before = await trainer.score(sequences);
  for (let round = 0; round < 3; round++) {
    const group = { ...groupOf(1), groupId: `again-${round}` };
    await trainer.submitGroups({ ...batchOf(group), adam: { learningRate: 0.5 } });
    await trainer.step();
  }
  const after = await trainer.score(sequences);
  t.equal(before[0]?.[1], -6);
  t.ok((after[0]?.[1] ?? 0) > -5.9, 'what was better is likelier');
  t.ok((after[1]?.[1] ?? 0) < -6, 'what was worse is less likely');
  t.equal(after[0]?.[0], -6, 'the prompt is not trained');
});

t.test('both reductions train the same objective', async (t) => {
  const moved: number[] = [];
  for (const reduction of ['sum', 'datum-mean'] as const) {
    const site = await siteOf(t, { reduction });
    const trainer = site.open({ chunks: { maxDatums: 3 } });
    await trainer.ensureRun(RUN, LEASE);
    await trainer.submitGroups({ ...batchOf(groupOf(1), groupOf(2)), adam: { learningRate: 1 } });
    await trainer.step();
    const [logprobs] = await trainer.score([[101, 5, 10, 20]]);
    moved.push((logprobs?.[1] ?? NaN) + 6);
  }
  // A / (P·G·L₀) = 0.5 / (2·2·2).
  for (const change of moved) t.ok(Math.abs(change - 0.0625) < 1e-6, `${change}`);
});

t.test('a chunk that fails leaves its gradients behind: new model, last saved state, replay', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open({ chunks: { maxDatums: 1 } });
  await trainer.ensureRun(RUN, LEASE);
  const stepOf = async (index: number) => {
    await trainer.submitGroups(batchOf(groupOf(index)));
    await trainer.step();
  };
  await stepOf(1);
  t.match(await trainer.saveState(), { step: 1 });
  await stepOf(2);
  let polls = 0;
  site.fake.fate = ({ path }) => {
    if (path !== 'retrieve_future' || ++polls !== 2) return undefined;
    return { status: 400, body: { detail: 'out of memory' } };
  };
  const from = training(site.fake).length;
  await stepOf(3);
  t.strictSame(
    site.fake.heard
      .filter(({ path }) => /^(forward_backward|optim_step|load_weights|create_model)$/.test(path))
      .slice(-9)
      .map(({ path, seq }) => `${path} ${seq ?? ''}`.trim()),
    [
      'create_model',
      'load_weights 1',
      'forward_backward 2',
      'forward_backward 3',
      'optim_step 4',
      'forward_backward 5',
      'forward_backward 6',
      'optim_step 7',
    ].toSpliced(0, 0, 'forward_backward 9'),
    `after ${from} requests`,
  );
  t.equal(site.fake.steps.length, 3);
  t.equal(new Set(site.fake.steps).size, 3, 'each step once');
});

t.test('a step that always fails is dropped, and the run goes on without it', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open();
  await trainer.ensureRun(RUN, LEASE);
  await trainer.submitGroups(batchOf(groupOf(1)));
  await trainer.step();
  // Every pass of group 2 fails: told by the request before the poll.
  site.fake.fate = ({ index, path }) => {
    const before = site.fake.heard[index - 1];
    const isPass = path === 'retrieve_future' && before?.path === 'forward_backward';
    return isPass && site.fake.steps.length === 1
      ? { status: 200, body: { error: 'bad datum', category: 'user' } }
      : undefined;
  };
  await t.rejects(trainer.submitGroups(batchOf(groupOf(2))), { code: 'trainer_failed' });
  site.fake.fate = () => undefined;
  await trainer.submitGroups(batchOf(groupOf(3)));
  await trainer.step();
  t.equal(site.fake.steps.length, 2);
  await trainer.close();
  const again = site.open();
  const state = await again.ensureRun(RUN, LEASE);
  t.strictSame([...state.consumed], ['g1', 'g3']);
  t.match(state.dropped.get('g2'), /bad datum/);
});

t.test('a policy that is not the one that was sampled halts the run at its first step', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open();
  await trainer.ensureRun(RUN, LEASE);
  const group = groupOf(1);
  for (const { turns } of group.rollouts) turns[0]!.responseLogprobs = [-6.4, -6.4];
  await t.rejects(trainer.submitGroups(batchOf(group)), { code: 'trainer_off_policy' });
  t.equal(site.fake.steps.length, 0, 'the optimiser has not moved');
  await trainer.submitGroups(batchOf(groupOf(2)));
  await trainer.step();
  t.equal(site.fake.steps.length, 1, 'and the gradients of the refused step are gone');
});

t.test('numbers that are not finite stop a step, on the way there and back', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open();
  await trainer.ensureRun(RUN, LEASE);
  const endless = batchOf(groupOf(1));
  await t.rejects(trainer.submitGroups({ ...endless, lengthScale: 1e-320 }), { code: 'trainer_not_finite' });
  site.fake.fate = ({ index, path }) =>
    path === 'retrieve_future' && site.fake.heard[index - 1]?.path === 'optim_step'
      ? { status: 200, body: { metrics: { 'skyrl.ai/grad_norm': null, loss: 1 } } }
      : undefined;
  await trainer.submitGroups(batchOf(groupOf(2)));
  await t.rejects(trainer.step(), { code: 'trainer_not_finite' });
  site.fake.fate = () => undefined;
  t.equal((await trainer.score([[1, 2, 3]]))[0]?.length, 2);
  t.equal(site.fake.steps.length, 0, 'the model that took it is left behind');
});

t.test('a fenced writer changes nothing', async (t) => {
  const site = await siteOf(t);
  let isHeld = true;
  const lease: WriterLease = { token: 3, isHeld: () => isHeld };
  const trainer = site.open();
  await trainer.ensureRun(RUN, lease);
  isHeld = false;
  await t.rejects(trainer.submitGroups(batchOf(groupOf(1))), { code: 'trainer_lease_lost' });
  t.equal(site.fake.steps.length, 0);
  await trainer.close();
  await t.rejects(site.open().ensureRun(RUN, LEASE), { code: 'trainer_lease_lost' }, 'an older token');
});

t.test('another writer’s number is a conflict, not a reason to try again', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open();
  await trainer.ensureRun(RUN, LEASE);
  site.fake.fate = ({ path }) =>
    path === 'forward_backward'
      ? { status: 409, body: { detail: 'Training request sequence number was reused' } }
      : undefined;
  await t.rejects(trainer.submitGroups(batchOf(groupOf(1))), { code: 'trainer_conflict' });
});

t.test('a session that was given up brings a new model, and the same weights', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open({ heartbeatMs: 5 });
  await trainer.ensureRun(RUN, LEASE);
  await trainer.submitGroups(batchOf(groupOf(1)));
  await trainer.step();
  const model = [...site.fake.models.keys()].at(-1);
  site.fake.endSessions();
  while (site.fake.heard.at(-1)?.path !== 'session_heartbeat') await new Promise(setImmediate);
  await new Promise((resolve) => setTimeout(resolve, 20));
  await trainer.submitGroups(batchOf(groupOf(2)));
  await trainer.step();
  t.not([...site.fake.models.keys()].at(-1), model);
  t.equal(site.fake.steps.length, 2);
});

t.test('results that take their time are polled for, whatever "not yet" is called', async (t) => {
  for (const style of ['408', 'try_again'] as const) {
    const site = await siteOf(t);
    site.fake.delay = { polls: 2, style };
    const trainer = site.open();
    await trainer.ensureRun(RUN, LEASE);
    await trainer.submitGroups(batchOf(groupOf(1)));
    t.equal((await trainer.step()).step, 1);
  }
  const site = await siteOf(t);
  const trainer = site.open({ timeouts: { ...QUICK, resultMs: 100 } });
  site.fake.fate = ({ path }) => (path === 'retrieve_future' ? { status: 408, body: {} } : undefined);
  await t.rejects(trainer.ensureRun(RUN, LEASE), { code: 'trainer_timeout' }, 'but not for ever');
});

t.test('a promise that the server lost is made again under the same number', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open();
  await trainer.ensureRun(RUN, LEASE);
  let lost = 0;
  site.fake.fate = ({ index, path }) => {
    const isFirst = path === 'retrieve_future' && site.fake.heard[index - 1]?.path === 'forward_backward';
    return isFirst && lost++ === 0 ? { status: 410, body: { detail: 'promise expired' } } : undefined;
  };
  await trainer.submitGroups(batchOf(groupOf(1)));
  await trainer.step();
  t.strictSame(training(site.fake).slice(-3), ['forward_backward 1', 'forward_backward 1', 'optim_step 2']);
  t.equal(site.fake.steps.length, 1);
});

t.test('a server that forgot a promise is given a new model', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open();
  await trainer.ensureRun(RUN, LEASE);
  const models = site.fake.heard.filter(({ path }) => path === 'create_model').length;
  let lost = 0;
  site.fake.fate = ({ path }) =>
    path === 'retrieve_future' && lost++ === 0
      ? { status: 404, body: { detail: 'Future not found' } }
      : undefined;
  await trainer.submitGroups(batchOf(groupOf(1)));
  await trainer.step();
  t.equal(site.fake.heard.filter(({ path }) => path === 'create_model').length, models + 1);
  t.equal(site.fake.steps.length, 1);
});

t.test('a busy server is asked again after a pause', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open();
  await trainer.ensureRun(RUN, LEASE);
  let refused = 0;
  site.fake.fate = ({ path }) => {
    if (path === 'forward_backward' && refused++ < 2) return { status: 429, body: { detail: 'slow down' } };
    return undefined;
  };
  await trainer.submitGroups(batchOf(groupOf(1)));
  await trainer.step();
  t.equal(refused, 3);
  t.equal(site.fake.steps.length, 1);
});

t.test('state is saved once a name, also when the answer was lost', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open();
  await trainer.ensureRun(RUN, LEASE);
  await trainer.submitGroups(batchOf(groupOf(1)));
  await trainer.step();
  let lost = 0;
  site.fake.fate = ({ path }) => (path === 'save_weights' && lost++ === 0 ? 'unanswered' : undefined);
  await t.rejects(trainer.saveState(), { code: 'trainer_unreachable' });
  const saved = await trainer.saveState().catch((error: unknown) => error);
  t.match(saved, { step: 1, path: /^tinker:\/\/model_\d+\/weights\/step-00000001$/ });
});

t.test('a journal is of one run, and what is torn was never sent', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open();
  await trainer.ensureRun(RUN, LEASE);
  await trainer.submitGroups(batchOf(groupOf(1)));
  await trainer.step();
  await trainer.close();
  await t.rejects(site.open().ensureRun({ ...RUN, rank: 4 }, LEASE), { code: 'trainer_journal' });
  const path = join(site.directory, RUN.run, 'journal.ndjson');
  const text = readFileSync(path, 'utf8');
  writeFileSync(path, `${text}{"kind":"step","st`);
  t.equal((await site.open().ensureRun(RUN, LEASE)).step, 1);
  t.ok(readFileSync(path, 'utf8').startsWith(text));
  await site.fake.kill();
  const payload = join(site.directory, RUN.run, 'payloads', '00000001.json');
  const datums = readFileSync(payload, 'utf8');
  await site.fake.restart('engine');
  writeFileSync(payload, datums.replace('-6', '-5'));
  const other = site.open();
  await other.ensureRun(RUN, LEASE);
  await t.rejects(other.score([[1, 2, 3]]), { code: 'trainer_journal' }, 'what is replayed is what was sent');
  writeFileSync(path, `${text}{"kind":"nonsense"}\n`);
  await t.rejects(site.open().ensureRun(RUN, LEASE), { code: 'trainer_journal' });
});

t.test('whoever waits for a trainer that is away hears of it in time', async (t) => {
  const timeouts = { ...QUICK, resultMs: 60_000 };
  const site = await siteOf(t);
  const trainer = site.open({ timeouts });
  await trainer.ensureRun(RUN, LEASE);
  await trainer.submitGroups(batchOf(groupOf(1)));
  // The step is acknowledged and its result never comes.
  site.fake.fate = ({ path }) => (path === 'retrieve_future' ? 'lost' : undefined);
  await t.rejects(trainer.step(), { code: 'trainer_unreachable' });
  site.fake.fate = () => undefined;
  t.equal(
    (await site.open().ensureRun(RUN, { ...LEASE, token: 2 })).step,
    1,
    'and the step is finished later',
  );
  t.equal(site.fake.steps.length, 1);
});

t.test('a signal ends whatever waits for the trainer, and the step is finished later', async (t) => {
  const waits = ['retrieve_future', 'forward_backward', 'optim_step'];
  for (const where of waits) {
    const site = await siteOf(t);
    const control = new AbortController();
    const timeouts = { ...QUICK, submitMs: 60_000, resultMs: 60_000 };
    const trainer = site.open({ timeouts, signal: control.signal });
    await trainer.ensureRun(RUN, LEASE);
    site.fake.fate = ({ path }) => {
      if (path !== where) return undefined;
      setTimeout(() => control.abort(), 20);
      return 'unanswered';
    };
    const began = performance.now();
    const step = trainer.submitGroups(batchOf(groupOf(1))).then(() => trainer.step());
    await t.rejects(step, { code: 'shutting_down' }, where);
    t.ok(performance.now() - began < 5_000);
    site.fake.fate = () => undefined;
    t.equal((await site.open().ensureRun(RUN, { ...LEASE, token: 2 })).step, 1);
    t.equal(site.fake.steps.length, 1);
  }
});

t.test('a save that died with its server is made again with another model', async (t) => {
  const site = await siteOf(t);
  const trainer = site.open();
  await trainer.ensureRun(RUN, LEASE);
  await trainer.submitGroups(batchOf(groupOf(1)));
  await trainer.step();
  // The name is taken and the checkpoint is not listed, as after a kill in the middle of it.
  let taken: string | undefined;
  site.fake.fate = ({ path, model }) => {
    if (path !== 'save_weights') return undefined;
    taken ??= model;
    return model === taken ? { status: 409, body: { detail: 'already exists' } } : undefined;
  };
  const { step, path } = await trainer.saveState();
  t.equal(step, 1);
  t.notMatch(path, String(taken));
  t.equal(site.fake.steps.length, 1, 'with the step that the first model had taken');
});
