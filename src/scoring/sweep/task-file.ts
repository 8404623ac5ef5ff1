/** Task files: one JSON object a line. */
import { readFileSync } from 'node:fs';
import { Compile } from 'typebox/compile';
import { ConsortError } from '../../contract/errors.ts';
import { TaskRow, type Task } from '../../contract/task.ts';

const row = Compile(TaskRow);

/**
 * @throws `file_unreadable`, or `tasks_invalid` naming the line, the field and the rule
 */
export function readTaskFile(file: string): TaskRow[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConsortError('file_unreadable', [file, reason], { cause: error });
  }
  const rows: TaskRow[] = [];
  const seen = new Set<string>();
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const parsed = parseRow(file, index + 1, line);
    if (seen.has(parsed.id))
      throw new ConsortError('tasks_invalid', [file, index + 1, `the id ${parsed.id} is used twice`]);
    seen.add(parsed.id);
    rows.push(parsed);
  }
  if (rows.length === 0) throw new ConsortError('tasks_invalid', [file, 1, 'there is no task in it']);
  return rows;
}

function parseRow(file: string, line: number, text: string): TaskRow {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new ConsortError('tasks_invalid', [file, line, 'it is not valid JSON'], { cause: error });
  }
  if (!row.Check(value)) {
    const fault = [...row.Errors(value)].find(({ keyword }) => keyword !== 'additionalProperties');
    const field = fault?.instancePath.slice(1) || 'the object';
    throw new ConsortError('tasks_invalid', [file, line, `${field} ${fault?.message ?? 'is invalid'}`]);
  }
  if ((value.prompt === undefined) === (value.messages === undefined)) {
    throw new ConsortError('tasks_invalid', [file, line, 'it needs either prompt or messages']);
  }
  return value;
}

/** The task that a row describes, sampled at the given temperature. */
export function taskOfRow(value: TaskRow, sampling: Task['sampling']): Task {
  return {
    messages: value.messages ?? [{ role: 'user', content: value.prompt ?? '' }],
    sampling,
    gold: value.gold,
    verifier: value.verifier,
    ...(value.params && { params: value.params }),
    ...(value.choices && { choices: value.choices }),
    label: value.task ?? '',
    ...(value.cluster !== undefined && { cluster: value.cluster }),
  };
}
