/** What commands show: a table, and a progress bar when there is a terminal to show it on. */

export type Cell = string | number;

/** Columns as wide as their widest cell; numbers to the right. */
export function table(header: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const text = [header, ...rows].map((row) => row.map(String));
  const widths = header.map((_, column) => Math.max(...text.map((row) => (row[column] ?? '').length)));
  const line = (row: readonly string[], source: readonly Cell[]) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return typeof source[column] === 'number' ? cell.padStart(width) : cell.padEnd(width);
      })
      .join('  ')
      .trimEnd();
  const [first = [], ...rest] = text;
  const rule = widths.map((width) => '─'.repeat(width)).join('  ');
  return [line(first, header), rule, ...rest.map((row, index) => line(row, rows[index] ?? []))].join('\n');
}

/** Three decimals with a sign where it matters. */
export function signed(value: number): string {
  return `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(3)}`;
}

const WIDTH = 30;
/** A task that is over sooner needs no bar. */
const PATIENCE_MS = 1_000;

/** A bar on stderr; silent where stderr is no terminal. */
export class Progress {
  readonly #label: string;
  readonly #total: number;
  readonly #startedAt = performance.now();
  readonly #isShown = process.stderr.isTTY;

  constructor(label: string, total: number) {
    this.#label = label;
    this.#total = total;
  }

  /** @param note what there is to say besides how far it got */
  show(done: number, note = ''): void {
    const elapsed = performance.now() - this.#startedAt;
    if (!this.#isShown || elapsed < PATIENCE_MS) return;
    const filled = Math.round((this.#total === 0 ? 1 : done / this.#total) * WIDTH);
    const bar = '█'.repeat(filled) + '░'.repeat(WIDTH - filled);
    const seconds = Math.round(elapsed / 1000);
    process.stderr.write(`\r${this.#label} ${bar} ${done}/${this.#total} ${seconds} s ${note}\u001B[K`);
  }

  close(): void {
    if (this.#isShown) process.stderr.write('\r\u001B[K');
  }
}

/** An AbortSignal that Ctrl-C sets off; a second Ctrl-C ends the process as usual. */
export function interruptible(): AbortSignal {
  const control = new AbortController();
  process.once('SIGINT', () => control.abort());
  return control.signal;
}
