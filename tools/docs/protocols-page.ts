/** docs/reference/protocols.md, drawn from the list of protocols: what each takes, and what it can be told. */
import { optionsFor } from '../../src/gateway/catalog.ts';
import { protocols } from '../../src/gateway/protocols/index.ts';
import { streamsWith, type Protocol } from '../../src/gateway/protocols/protocol.ts';
import { typeOf, type Schema } from './schema-type.ts';
import { row } from './table.ts';

const INTRODUCTION = `# Protocols: facts and options

[protocols.md](../protocols.md) says what each protocol does. Here is what the code says of each: what it takes with its
default options (calls in all, calls in sequence, calls side by side), whether it streams with them, what coalitions of one prompt can share (\`A\` each member's
own answers, \`B\` all but one call a coalition, \`C\` the first round, \`D\` what happens to be equal), and its options. A
system sets them under \`options\`; a request may, under \`consort.options\`, where the system's \`overrides\` allow it.
\`GET /v1/models/{id}\` shows the same for a system's own options and pool.
`;

const SIZES = [2, 3, 5];

function shapes(protocol: Protocol): string {
  const options = optionsFor(protocol, {});
  return SIZES.map((size) => {
    const { calls, path, widest } = protocol.describe(options, size);
    return `${calls}/${path}/${widest}`;
  }).join(', ');
}

const yes = (is: boolean) => (is ? 'yes' : 'no');

function optionRows(protocol: Protocol): string[] {
  const { properties = {}, required = [] } = JSON.parse(JSON.stringify(protocol.options)) as Schema;
  return Object.entries(properties).map(([name, schema]) => {
    if (schema.description === undefined)
      throw new Error(`option ${name} of ${protocol.name} has no description: give it one`);
    const value = schema.default === undefined ? 'none' : `\`${JSON.stringify(schema.default)}\``;
    return row(
      `\`${name}\``,
      typeOf(schema),
      required.includes(name) && schema.default === undefined ? '**required**' : value,
      schema.description,
    );
  });
}

function section(protocol: Protocol): string[] {
  const { name, summary, source, tools, reuse, version } = protocol;
  const streams = streamsWith(protocol, optionsFor(protocol, {}));
  const rows = optionRows(protocol);
  return [
    `## ${name}`,
    '',
    `${summary} Source: ${source}.`,
    '',
    `Version ${version}; streams: ${yes(streams)}; tools: ${yes(tools)}; reuse class ${reuse}; calls/path/width for ${SIZES.join(', ')} members: ${shapes(protocol)}.`,
    '',
    ...(rows.length > 0
      ? [row('Option', 'Type', 'Default', 'Meaning'), row('---', '---', '---', '---'), ...rows]
      : ['It has no options.']),
    '',
  ];
}

export function protocolsPage(): string {
  return [INTRODUCTION, ...protocols.flatMap(section)].join('\n');
}
