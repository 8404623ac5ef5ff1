/** docs/reference/errors.md, drawn from the catalogue. */
import { CATALOGUE, type ErrorCode } from '../../src/contract/errors.ts';
import { row } from './table.ts';

const INTRODUCTION = `# Errors

Every error that leaves Consort is in this table. On the public port it has OpenAI's shape:

\`\`\`json
{ "error": { "message": "There is no model gpt-9. GET /v1/models lists …", "type": "invalid_request_error", "param": "model", "code": "model_not_found" } }
\`\`\`

Match on \`code\`: codes are stable, messages may get better. After the first byte of a stream the status is
spent, so the same object comes as an event, and \`[DONE]\` follows. A command prints the code on stderr and exits
with 1; wrong usage exits with 2.

*Retryable* says whether the same request, unchanged, may succeed later. Status and retryable are the usual ones; an
error that passes on an upstream's own status (a 429, say) takes that one's. In meanings and remedies, … stands for
the value at fault.
`;

/** Meanings of codes whose message is little more than the details. */
const MEANINGS: Readonly<Partial<Record<ErrorCode, string>>> = {
  invalid_request: 'A field of the request has a value that it cannot have',
  overloaded: 'There is no room for the request now, here or at the model',
  usage: 'The command line is wrong',
  config_invalid: 'A field of the config file has a value that it cannot have',
  tasks_invalid: 'A line of a task file is wrong',
  shard_invalid: 'Exported training data is torn, changed or inconsistent',
};
/** The same for remedies. */
const REMEDIES: Readonly<Partial<Record<ErrorCode, string>>> = {
  config_invalid: 'Correct the field as the message says; see the page of the configuration.',
  merge_invalid: 'Do what the message says; docs/merging.md has the methods.',
};

function textOf(code: string, template: string, own: Readonly<Record<string, string>>): string {
  const text = own[code] ?? template.replaceAll('%s', '…');
  if (!/\p{L}{2}/u.test(text))
    throw new Error(`${code} says nothing by itself: give it words in tools/docs/errors-page.ts`);
  return text;
}

export function errorsPage(): string {
  const rows = Object.entries(CATALOGUE).map(([code, { status, retryable, type, message, remedy }]) =>
    row(
      `\`${code}\``,
      String(status),
      retryable ? 'yes' : 'no',
      `\`${type}\``,
      textOf(code, message, MEANINGS),
      textOf(code, remedy, REMEDIES),
    ),
  );
  return [
    INTRODUCTION,
    row('Code', 'Status', 'Retryable', 'Type', 'Meaning', 'Remedy'),
    row('---', '---', '---', '---', '---', '---'),
    ...rows,
  ].join('\n');
}
