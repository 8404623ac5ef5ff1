/** One row of a Markdown table; cells may hold code spans, and a `<` elsewhere is no tag. */
export function row(...cells: readonly string[]): string {
  const safe = cells.map((cell) =>
    cell.replaceAll('|', '\\|').replaceAll('\n', ' ').replaceAll('<', '&lt;').replaceAll('>', '&gt;'),
  );
  return `| ${safe.join(' | ')} |`;
}
