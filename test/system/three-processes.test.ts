import t from 'tap';
import { runProcesses, type Options } from '../../bench/processes/run.ts';
import { verdicts } from '../../bench/processes/verdict.ts';

/** Shorter than `npm run test:processes`, which publishes its result; one of each kind dies. */
const OPTIONS: Options = { seed: 1, durationMs: 9_000, pauseMs: [400, 800], usdPerDay: 0.12, learns: false };

t.test('gateways, scorer and Redis, killed one after the other, lose and double nothing', async (t) => {
  const findings = await runProcesses(OPTIONS);
  t.ok(findings.kills.length >= 3, findings.kills.map(({ name }) => name).join(', '));
  for (const { claim, holds, found } of verdicts(findings, OPTIONS)) t.ok(holds, `${claim}: ${found}`);
});
