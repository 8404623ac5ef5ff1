/** Asks every member of a pool alone, as often as a fit needs, and grades what it says. */
import type { RunSystem } from '../../contract/capabilities.ts';
import { isAbsent } from '../../contract/call.ts';
import type { Plan } from '../../contract/plan.ts';
import type { TaskRow } from '../../contract/task.ts';
import type { Contribution } from '../../gateway/protocols/ask-all.ts';
import { single } from '../../gateway/protocols/single.ts';
import type { SoloAnswer, SoloRow } from '../../gateway/protocols/solo.ts';
import { judge } from '../../scoring/judge.ts';
import { sideBySide, type Judged, type Spent } from '../../scoring/sweep/graded-run.ts';
import { taskOfRow } from '../../scoring/sweep/task-file.ts';

/** Alone is with the protocol single, whatever the system's does with one member. */
function alone(plan: Plan, sample: number): Plan {
  return {
    ...plan,
    protocol: { name: single.name, version: single.version },
    options: {},
    replicate: sample,
  };
}

async function soloAnswer(
  plan: Plan,
  row: TaskRow,
  sampling: Parameters<typeof taskOfRow>[1],
  parts: Judged & { readonly run: RunSystem },
): Promise<{ answer: SoloAnswer; costMicros: number }> {
  const { run, verifiers, clock, signal } = parts;
  let said: Contribution | undefined;
  const { outcome } = await run(plan, taskOfRow(row, sampling), {
    signal,
    stream: false,
    trace: false,
    // Where its endpoint tells how sure a member was, a fit may want to know.
    prepare: (call) => ({ ...call, confidence: true }),
    onCall({ call, result }) {
      if (isAbsent(result)) return;
      said = { member: call.member, slot: call.slot, sample: plan.replicate, answer: result };
    },
  });
  const reward = await judge(outcome, verifiers, clock.now());
  const isRight = (reward?.value ?? 0) >= 0.5;
  return { answer: { isRight, ...(said && { said }) }, costMicros: outcome.costMicros };
}

/**
 * @param planFor the plan of one member alone
 * @throws the signal's reason when it was stopped
 */
export async function soloRows(
  rows: readonly TaskRow[],
  aliases: readonly string[],
  samples: number,
  planFor: (row: TaskRow, alias: string) => Plan,
  parts: Judged & { readonly concurrency: number; readonly sampling: Parameters<typeof taskOfRow>[1] },
): Promise<{ readonly rows: SoloRow[]; readonly spent: Spent }> {
  const told = new Array<SoloRow | undefined>(rows.length).fill(undefined);
  let costMicros = 0;
  await sideBySide(rows, parts, async (row, index) => {
    const answers = new Map<string, SoloAnswer[]>();
    for (const alias of aliases) {
      const own: SoloAnswer[] = [];
      for (let sample = 0; sample < samples; sample++) {
        const plan = alone(planFor(row, alias), sample);
        const { answer, costMicros: cost } = await soloAnswer(plan, row, parts.sampling, parts);
        own.push(answer);
        costMicros += cost;
      }
      answers.set(alias, own);
    }
    told[index] = { task: taskOfRow(row, parts.sampling), answers };
  });
  parts.signal.throwIfAborted();
  const calls = rows.length * aliases.length * samples;
  return { rows: told.filter((row) => row !== undefined), spent: { calls, reused: 0, costMicros } };
}
