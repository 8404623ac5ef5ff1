import { fastify } from 'fastify';
import t from 'tap';
import { ChatRequest } from '../../src/contract/chat.ts';
import { validation } from '../../src/gateway/plugins/validation.ts';

t.test('what is wrong with a very long list is said at once', async (t) => {
  const app = fastify({ bodyLimit: 8_388_608 });
  t.teardown(() => app.close());
  await app.register(validation);
  app.post('/', { schema: { body: ChatRequest } }, () => 'taken');
  const users = (length: number) => Array.from({ length }, () => ({ role: 'user', content: 'x' }));
  const valid = { model: 'ada', messages: users(1) };
  for (const [payload, message] of [
    [
      { ...valid, consort: { coalition: Array<string>(100_000).fill('ada') } },
      /coalition: .*more than 32 items/,
    ],
    [{ ...valid, messages: users(100_000) }, /messages: .*more than 4096 items/],
    [{ ...valid, messages: [...users(4000), { role: 'king' }] }, /messages\.4000\.role.*king/],
  ] as const) {
    const start = performance.now();
    const response = await app.inject({ method: 'POST', url: '/', payload });
    t.equal(response.statusCode, 400);
    t.match(response.json(), { message });
    t.ok(performance.now() - start < 5000, 'and nobody else waits for it');
  }
});
