import t from 'tap';
import { optionsFor } from '../../src/gateway/catalog.ts';
import { protocols } from '../../src/gateway/protocols/index.ts';
import { strangerIn } from '../../src/gateway/protocols/member-options.ts';
import type { Options } from '../../src/gateway/protocols/protocol.ts';

const POOL = ['ada', 'bob'];

const named = (name: string) => {
  const protocol = protocols.find((one) => one.name === name);
  if (!protocol) throw new TypeError(`no protocol ${name}`);
  return protocol;
};

t.test('a member that the pool does not have is found wherever options may name one', (t) => {
  const rows: [string, Options, string][] = [
    ['cascade', { thresholds: { ada: 0.5, adda: 0.7 } }, 'thresholds/adda'],
    ['cascade', { order: ['bob', 'adda'] }, 'order/1'],
    ['anchor', { rates: { adda: { rescue: 0.5, damage: 0 } } }, 'rates/adda'],
    ['anchor', { anchors: ['adda'] }, 'anchors/0'],
    ['mux', { calibration: { adda: [1] } }, 'calibration/adda'],
    ['route', { routers: ['adda'] }, 'routers/0'],
    ['relay', { order: ['ada', 'adda'] }, 'order/1'],
    ['structured', { reads: { adda: ['ada'] } }, 'reads/adda'],
    ['structured', { reads: { ada: ['bob', 'adda'] } }, 'reads/ada/1'],
    ['swarm', { tree: { adda: null } }, 'tree/adda'],
    ['swarm', { tree: { ada: 'adda', bob: null } }, 'tree/ada'],
    ['logit-fusion', { weights: { adda: 2 } }, 'weights/adda'],
  ];
  for (const [name, options, place] of rows) {
    t.throws(
      () => optionsFor(named(name), options, POOL),
      {
        code: 'option_invalid',
        message: `Option ${place} of protocol ${name}: "adda" is no member of the pool, which has ada, bob`,
        param: `consort.options.${place.split('/')[0]}`,
      },
      `${name} ${place}`,
    );
  }
  t.end();
});

t.test('members of the pool, words of the protocol and defaults are no strangers', (t) => {
  t.ok(optionsFor(named('cascade'), { order: ['bob'], thresholds: { ada: 1 } }, POOL));
  t.ok(optionsFor(named('relay'), { order: 'seeded' }, POOL));
  t.ok(optionsFor(named('swarm'), { tree: { ada: 'bob', bob: null } }, POOL));
  for (const protocol of protocols) {
    const { options } = protocol;
    t.equal(strangerIn(options, optionsFor(protocol, {}), POOL), undefined, protocol.name);
  }
  t.end();
});

interface Node {
  readonly description?: string;
  readonly [field: string]: unknown;
}

t.test('an option whose description speaks of aliases is marked', (t) => {
  for (const { name, options } of protocols) {
    for (const [option, schema] of Object.entries(options.properties) as [string, Node][]) {
      if (!/alias/i.test(schema.description ?? '')) continue;
      t.match(JSON.stringify(schema), /"consortNames":/, `${name}.${option}`);
    }
  }
  t.end();
});
