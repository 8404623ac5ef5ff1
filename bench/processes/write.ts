/**
 * Kills the processes of a deployment for two minutes, counts everything again, and writes what was found to
 * docs/experiments/three-processes.md. SIMULATED models: it says nothing about language models.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { compare } from './estimates.ts';
import { runProcesses, type Findings, type Options } from './run.ts';
import { verdicts, type Verdict } from './verdict.ts';

const seed = Number(process.argv[2] ?? 1);
const options: Options = { seed, durationMs: 120_000, pauseMs: [3_000, 6_000], usdPerDay: 2, learns: true };

function killRows({ names, kills }: Findings): string[] {
  return names.map((name) => {
    const back = kills.filter((kill) => kill.name === name).map(({ backMs }) => backMs / 1000);
    const [least, most] = [Math.min(...back), Math.max(...back)];
    return `| ${name} | ${back.length} | ${least.toFixed(1)}–${most.toFixed(1)} s |`;
  });
}

function estimateRows({ estimates }: Findings): string[] {
  return compare(estimates).map(({ estimate, exact, isInside, deviation }) => {
    const { system, source, metric, subject, value, interval, clusters } = estimate;
    const about = metric === 'value' ? 'the team' : subject;
    const bounds = interval.map((bound) => bound.toFixed(4)).join(' … ');
    const cells = [system, source, metric, about, value.toFixed(4), bounds, exact.toFixed(4)];
    return `| ${[...cells, deviation.toFixed(2), isInside ? 'yes' : 'NO', clusters].join(' | ')} |`;
  });
}

function page(findings: Findings, found: readonly Verdict[]): string {
  const { traffic, counted } = findings;
  const agrees = found.every(({ holds }) => holds);
  return [
    '# Gateways, scorer, learner and Redis, killed again and again',
    '',
    'SIMULATED models: this checks that nothing is lost, doubled or miscounted, and says nothing about language models.',
    `Written by \`npm run test:processes\`, seed ${options.seed}: \`consort serve\` twice, \`consort score\`, \`consort learn\` and`,
    `a Redis that flushes every write, under traffic for ${options.durationMs / 1000} s. Every ${options.pauseMs[0] / 1000} to ${options.pauseMs[1] / 1000} s one of them dies by`,
    'SIGKILL and is started again; the scorer dies once more when the traffic has ended. Then the ledger is counted',
    'again, by plain code of its own.',
    '',
    '| process | kills | ready again after |',
    '| --- | --- | --- |',
    ...killRows(findings),
    '',
    `${traffic.sent} requests: ${traffic.whole.length} answered whole, ${traffic.broken} broken by a kill.`,
    `${counted.entries} entries in the ledger: ${counted.outcomes.size} outcomes, ${counted.rewards} rewards; ${traffic.judged.length} by feedback that came later.`,
    '',
    '| claim | holds | found |',
    '| --- | --- | --- |',
    ...found.map(({ claim, holds, found: text }) => `| ${claim} | ${holds ? 'yes' : 'NO'} | ${text} |`),
    '',
    'The learner trains on a trainer and a policy server that are stand-ins and stay alive. A killed learner keeps the',
    'lease of its run for up to 30 s; until its successor has it and has taken a step, it is not killed again.',
    '',
    '## The budget of shadow runs',
    '',
    'A shadow run begins only if what its live run cost, once for each coalition, still fits below the day’s limit, and',
    'settles the difference when it ends. What it costs beyond that is the only way over the limit: of two prompts a',
    'process at most. What was reserved by a run that a kill cut off stays reserved. A vote’s coalitions share all calls',
    'of the live run and cost nothing.',
    '',
    '## Estimates',
    '',
    'Intervals are anytime-valid, at 95 %. At most one of them may miss, and no value of a hundred prompts or more may',
    'be 4.5 standard errors away.',
    '',
    '| system | source | metric | of | estimate | interval | exact | standard errors | inside | prompts |',
    '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |',
    ...estimateRows(findings),
    '',
    `All of it together: ${agrees ? 'it holds' : 'IT DOES NOT HOLD'}.`,
    '',
  ].join('\n');
}

const findings = await runProcesses(options);
const found = verdicts(findings, options);
const path = fileURLToPath(new URL('../../docs/experiments/three-processes.md', import.meta.url));
const text = await format(page(findings, found), { ...(await resolveConfig(path)), filepath: path });
writeFileSync(path, text);
process.stdout.write(text);
process.exitCode = found.every(({ holds }) => holds) ? 0 : 1;
