import t from 'tap';
import { TurnGroup } from '../../src/store/turn-group.ts';

t.test('what comes in one turn is handled together, in order', async (t) => {
  const handled: number[][] = [];
  const group = new TurnGroup<number, number>((items) => {
    handled.push([...items]);
    return items.map((item) => 2 * item);
  });
  t.same(await Promise.all([1, 2, 3].map((item) => group.add(item))), [2, 4, 6]);
  t.equal(await group.add(4), 8);
  t.same(handled, [[1, 2, 3], [4]]);
});

t.test('one item that cannot be handled fails alone', async (t) => {
  const group = new TurnGroup<number, number>((items) =>
    items.map((item) => {
      if (item === 2) throw new RangeError('two');
      return item;
    }),
  );
  const [first, second, third] = await Promise.allSettled([1, 2, 3].map((item) => group.add(item)));
  t.match(first, { status: 'fulfilled', value: 1 });
  t.match(second, { status: 'rejected', reason: { message: 'two' } });
  t.match(third, { status: 'fulfilled', value: 3 });
});
