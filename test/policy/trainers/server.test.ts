import { readFileSync } from 'node:fs';
import t from 'tap';
import { decodePassed, PROTOBUF } from '../../../src/policy/trainers/codec.ts';
import { converse, type Exchange } from '../../../tools/trainer/conversation.ts';
import { FakeTinker } from '../../support/tinker-server.ts';

const path = new URL('../../fixtures/trainers/skyrl-0.4.0-jax.json', import.meta.url);
const { exchanges } = JSON.parse(readFileSync(path, 'utf8')) as { exchanges: Exchange[] };

/** Keys and kinds, without the values: what must be the same of two servers. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? [] : [shapeOf(value[0])];
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, shapeOf(inner)]),
  );
}

const shown = ({ name, status, contentType, body, location }: Exchange) => ({
  name,
  status,
  // The body of a redirect is nobody's business.
  contentType: status === 302 ? '' : contentType,
  body: status === 302 || status === 415 ? '' : shapeOf(body),
  leads: location === undefined ? '' : new URL(location).pathname.split('/').at(-1),
});

t.test('the fake answers every request as the recorded server did', async (t) => {
  const fake = new FakeTinker({ codec: 'protobuf', reduction: 'datum-mean' });
  await fake.listen();
  t.teardown(() => fake.kill());
  const answers = await converse(fake.url, 'tiny', 'protobuf');
  for (const [index, recorded] of exchanges.entries()) {
    const answer = answers[index];
    t.strictSame(answer && shown(answer), shown(recorded), recorded.name);
  }
  t.equal(answers.length, exchanges.length);
});

t.test('the recorded reply to a pass is read', (t) => {
  const recorded = exchanges.find(({ name }) => name === 'forward_backward result');
  const passed = decodePassed(PROTOBUF, Buffer.from(String(recorded?.body), 'base64'), () => undefined);
  const [output = { logprobs: { data: [] } }] = passed.loss_fn_outputs;
  const logprobs = output.logprobs.data.map(Number);
  t.equal(passed.loss_fn_outputs.length, 1);
  t.strictSame(
    logprobs.map((logprob) => logprob.toFixed(3)),
    ['-10.748', '-11.614', '-11.862', '-9.768'],
  );
  // −ρA with ρ = exp(lp + 6), and A = 0.5 on the trained half.
  const expected = logprobs.map((logprob, index) => (index < 2 ? 0 : -Math.exp(logprob + 6) * 0.5));
  for (const [index, loss] of (output.elementwise_loss?.data ?? []).entries()) {
    t.ok(Math.abs(Number(loss) - (expected[index] ?? NaN)) < 1e-5, `loss ${index}`);
  }
  t.equal(output.elementwise_loss?.data.length, 4);
  t.throws(() => decodePassed(PROTOBUF, Buffer.from('0a0b', 'hex'), () => undefined), {
    code: 'trainer_malformed',
  });
  t.end();
});
