/** A training run as one HTML file that needs nothing else: the chart library and the numbers are inside. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { TrainReport } from './report.ts';
import { trainText } from './text.ts';

const read = (path: string) => readFileSync(fileURLToPath(import.meta.resolve(path)), 'utf8');

const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** JSON inside a script: nothing in it may close the script. */
const inScript = (value: unknown) => JSON.stringify(value).replaceAll('<', '\\u003c');

export function trainHtml(report: TrainReport): string {
  const title = escaped(`${report.run}: ${report.policy} in ${report.system}`);
  const text = escaped(trainText({ ...report, curve: [] }));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>
${read('uplot/dist/uPlot.min.css')}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; background: #fff; }
pre { background: #f4f5f7; padding: 1rem; overflow-x: auto; }
</style>
</head>
<body>
<h1>${title}</h1>
<pre>${text}</pre>
<h2>Mean reward of each batch</h2>
<div id="reward"></div>
<h2>Distance between trainer and fleet, nats a token</h2>
<div id="gap"></div>
<script>${read('uplot/dist/uPlot.iife.min.js')}</script>
<script>
const { curve } = ${inScript({ curve: report.curve })};
const rounds = curve.map((point) => point.round);
const colours = ['#0969da', '#bc4c00', '#1a7f37'];
function draw(id, lines, range) {
  const width = document.getElementById(id).clientWidth;
  const series = lines.map(({ label }, at) => ({ label, stroke: colours[at], width: 2 }));
  const scales = { x: { time: false }, ...(range && { y: { range } }) };
  const data = [rounds, ...lines.map(({ values }) => values)];
  new uPlot({ width, height: 320, scales, series: [{ label: 'batch' }, ...series] }, data, document.getElementById(id));
}
const objectives = [...new Set(curve.flatMap((point) => point.rewards.map((one) => one.objective)))];
draw('reward', objectives.map((label) => ({
  label,
  values: curve.map((point) => point.rewards.find((one) => one.objective === label)?.mean ?? null),
})), [0, 1]);
draw('gap', [{ label: 'gap', values: curve.map((point) => point.gap ?? null) }]);
</script>
</body>
</html>
`;
}
