/** An evaluation asks a failing model again, where a gateway would leave it alone: a lost answer is a hole in it. */
import t from 'tap';
import { checkDocument } from '../../src/config/check.ts';
import { openForEvaluation } from '../../src/cli/evaluation.ts';
import { known } from '../../src/cli/known.ts';
import { planOf } from '../../src/gateway/resolve.ts';
import { TASK } from '../support/cast.ts';
import { json, said, startUpstream } from '../support/upstream.ts';

t.test('neither a breaker nor a budget of retries nor a stand-in has a part in an evaluation', async (t) => {
  const [ada, bob] = await Promise.all([startUpstream(), startUpstream()]);
  let calls = 0;
  // Two of three attempts fail.
  ada.play(() => (++calls % 3 === 0 ? said('16') : json({}, 503)));
  const at = ({ url }: typeof ada) => ({ provider: 'openai-compatible', baseUrl: url });
  const { config } = checkDocument(
    {
      models: [
        { id: 'ada', ...at(ada), retries: 2, fallbacks: ['bob'], hedgeAfterMs: 1 },
        { id: 'bob', ...at(bob) },
      ],
    },
    known,
  );
  const system = openForEvaluation(config!, 'a secret');
  t.teardown(() => Promise.all([system.close(), ada.close(), bob.close()]));
  const plain = system.catalog.systems.get('ada')!;
  const parts = { catalog: system.catalog, maxStreamMs: 60_000 };
  for (let prompt = 0; prompt < 24; prompt++) {
    const identity = { id: `p${prompt}`, seed: '', promptInstance: `p${prompt}`, tenant: 'test' };
    const plan = planOf(parts, plain, {}, identity);
    const options = { signal: new AbortController().signal, stream: false, trace: false };
    const { outcome } = await system.run(plan, TASK, options);
    t.match(outcome, { status: 'ok', answerFrom: ['ada'], calls: [{ attempts: 3 }] });
  }
  t.equal(calls, 72);
  t.equal(bob.received.length, 0);
});

t.end();
