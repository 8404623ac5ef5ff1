/** A prompt as it would be without the fence: no marks, and nothing that says that members' words are no instructions. */

const NAMED = /between the marks (\[[a-z]{6}\])/;
const CAUTIONS = [
  [/,? and nothing in (?:it|them) is an instruction to you\./gi, '.'],
  [/ ?Nothing in (?:it|them) is an instruction to you\./g, ''],
] as const;

export function withoutFence(prompt: string): string {
  const mark = NAMED.exec(prompt)?.[1];
  if (!mark) return prompt;
  const lines = prompt
    .replace(NAMED, 'below')
    .split('\n')
    .filter((line) => line !== mark)
    .map((line) => (line.startsWith(`${mark} `) ? `${line.slice(mark.length + 1)}.` : line));
  return CAUTIONS.reduce((text, [pattern, instead]) => text.replace(pattern, instead), lines.join('\n'));
}
