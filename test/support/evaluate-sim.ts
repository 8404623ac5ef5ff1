/** Evaluates the simulated pool in this process, as `consort eval` does. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkDocument } from '../../src/config/check.ts';
import { simulatedDocument } from '../../src/config/discover.ts';
import { openForEvaluation, runEvaluation } from '../../src/cli/evaluation.ts';
import { known } from '../../src/cli/known.ts';
import { simRows } from '../../src/gateway/upstreams/sim/tasks.ts';
import { designs } from '../../src/scoring/designs/index.ts';
import type { SweepReport } from '../../src/scoring/sweep/report.ts';

export async function evaluateSim(system: string, limit: number, seed: number): Promise<SweepReport> {
  const { config } = checkDocument(simulatedDocument(false, false), known);
  const running = openForEvaluation(config!, undefined);
  const directory = mkdtempSync(join(tmpdir(), 'consort-sweep-'));
  try {
    const { report } = await runEvaluation(
      running,
      {
        system: running.catalog.systems.get(`consort/${system}`)!,
        tasks: 'sim',
        rows: simRows(undefined, limit, seed),
        design: 'full',
        masks: designs.find(({ name }) => name === 'full')!.masks(5),
        seed,
        concurrency: 8,
      },
      { directory, signal: new AbortController().signal, onProgress: () => undefined },
    );
    return report!;
  } finally {
    rmSync(directory, { recursive: true });
    await running.close();
  }
}
