import t from 'tap';
import { judge } from '../../../src/policy/trainers/dialect.ts';
import { LEASE, RUN, siteOf } from './site.ts';

t.test(
  'the self-test tells how a server reduces, how it is written to, and whether numbers count once',
  async (t) => {
    for (const codec of ['json', 'protobuf'] as const) {
      for (const reduction of ['sum', 'datum-mean'] as const) {
        for (const replaySafe of [true, false]) {
          const site = await siteOf(t, { codec, reduction, replaySafe });
          const trainer = site.open();
          await trainer.ensureRun(RUN, LEASE);
          t.strictSame(trainer.dialect, { reduction, replaySafe, sendWeights: true, codec });
          t.equal(site.fake.models.size, 1, 'its own models are gone');
        }
      }
    }
  },
);

t.test('a server that reduces in another way is refused before anything is trained', async (t) => {
  const site = await siteOf(t, { reduction: 'request-mean' });
  const refusal = { code: 'trainer_dialect', message: /longer 0\.5.*beside 0\.25.*apart 1/ };
  await t.rejects(site.open().ensureRun(RUN, LEASE), refusal);
  t.equal(site.fake.models.size, 0);
});

t.test('a server that does not tell its gradients’ norm cannot be judged', async (t) => {
  const site = await siteOf(t, { tellsNorm: false });
  await t.rejects(site.open().ensureRun(RUN, LEASE), {
    code: 'trainer_dialect',
    message: /no gradient norm/,
  });
});

t.test('ratios in between are nobody’s', (t) => {
  t.strictSame(judge({ longer: 1, beside: 1.001, apart: 0.999, twice: 2 }), {
    reduction: 'sum',
    replaySafe: false,
  });
  for (const ratios of [
    { longer: 0.5, beside: 0.5, apart: 1, twice: 1 },
    { longer: 1, beside: 0.5, apart: 0.5, twice: 0.5 },
    { longer: 1, beside: 1, apart: 1, twice: 1.5 },
    { longer: 0.5, beside: 0.5, apart: 0.5, twice: 1 },
    { longer: NaN, beside: 1, apart: 1, twice: 1 },
  ]) {
    t.throws(() => judge(ratios), { code: 'trainer_dialect' }, JSON.stringify(ratios));
  }
  t.end();
});
