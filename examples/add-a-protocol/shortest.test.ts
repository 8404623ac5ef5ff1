import t from 'tap';
import { shortest } from '../../src/gateway/protocols/shortest.ts';
import { protocolConformance } from '../conformance/protocol.ts';
import { Cast, performPlan, planOf } from '../support/cast.ts';

protocolConformance(t, { protocol: shortest });

const WORDS: Readonly<Record<string, string>> = {
  ada: 'Let me think about it for long. The final answer is 9.',
  bob: 'The final answer is 16.',
  cyd: 'The final answer is 61.',
};

t.test('the shortest answer wins, and of two the earlier member’s', async (t) => {
  const cast = new Cast(({ member }) => ({ words: [WORDS[member.alias] ?? ''] }));
  for (const [positions, winner] of [
    [[0, 1, 2], 'bob'],
    [[2, 1, 0], 'cyd'],
  ] as const) {
    const { outcome } = await performPlan(shortest, cast, planOf(shortest, {}, positions));
    t.strictSame(outcome.answerFrom, [winner]);
  }
});
