/** docs/experiments/first-loop.md, from the runs. */
import { row } from '../../tools/docs/table.ts';
import type { TrainReport } from '../../src/cli/train/report.ts';
import { difference, mean, type ByTask, type Difference, type Mean, type Quantity } from './compare.ts';

export interface Arm {
  readonly objective: string;
  /** One a seed. */
  readonly reports: readonly TrainReport[];
  readonly before: Readonly<Record<Quantity, readonly ByTask[]>>;
  readonly after: Readonly<Record<Quantity, readonly ByTask[]>>;
}

export interface Provenance {
  readonly date: string;
  readonly steps: number;
  readonly minutes: number;
}

const QUANTITIES: readonly [Quantity, string][] = [
  ['team', 'team v(N)'],
  ['alone', 'policy alone'],
  ['leaveOneOut', 'leave-one-out of the policy'],
];

const shown = ({ value, standardError }: Mean) => `${value.toFixed(3)} ± ${standardError.toFixed(3)}`;
const signed = (value: number) => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(3)}`;

/** A difference and how many standard errors it is: the larger of the two over tasks and over seeds. */
function shownDifference(found: Difference): string {
  const error = Math.max(found.standardError, found.overSeeds);
  return `${signed(found.value)} ± ${error.toFixed(3)} (${(found.value / error).toFixed(1)} SE)`;
}

export interface Verdict {
  readonly claim: string;
  readonly found: string;
  readonly holds: boolean;
}

function beats(claim: string, found: Difference): Verdict {
  const error = Math.max(found.standardError, found.overSeeds);
  return { claim, found: shownDifference(found), holds: found.value > 3 * error };
}

/** What the experiment is for, and whether it shows it. */
export function verdictsOf(arms: readonly Arm[]): Verdict[] {
  const named = (objective: string) => arms.find((arm) => arm.objective === objective);
  const [team, solo, mix] = [named('team'), named('solo'), named('mix')];
  if (!team || !solo || !mix) return [];
  const kept = mean(mix.after.alone).value / mean(solo.after.alone).value;
  return [
    beats('the team, `team` against untrained', difference(team.after.team, team.before.team)),
    beats('the team, `team` against `solo`', difference(team.after.team, solo.after.team)),
    beats('the team, `mix` against untrained', difference(mix.after.team, mix.before.team)),
    beats('the team, `mix` against `solo`', difference(mix.after.team, solo.after.team)),
    {
      claim: 'the policy alone, `mix` keeps 90 % of what `solo` has',
      found: `${(100 * kept).toFixed(0)} %`,
      holds: kept >= 0.9,
    },
  ];
}

export function page(arms: readonly Arm[], { date, steps, minutes }: Provenance): string {
  const [first] = arms.flatMap(({ reports }) => reports);
  const lines = [
    '# The first loop: tiny models, trained inside their team',
    '',
    'Models of **0.43 million parameters** on four toy task kinds: this shows that the loop works, from rollouts through a',
    'real trainer back into the team, and says nothing about useful language models.',
    '',
    `Written by \`npm run bench:first-loop\` on ${date} (${minutes} minutes on two CPU cores): \`consort train\` on`,
    `\`policy-fuse\`, where two frozen members draft and the policy has the last word, their seats shuffled anew for every`,
    `prompt. Trainer: SkyRL's JAX backend on the CPU, LoRA of rank ${first?.rank ?? 0}, learning rate`,
    `${first?.learningRate ?? 0}, ${steps} batches of ${first?.batch ?? 0} prompts with ${first?.group ?? 0} rollouts each, the same for every arm;`,
    'each batch is sampled from the weights of the step before. Everybody is sampled at the server’s default temperature of 1,',
    `in training and in measuring. ${first?.tasks ?? 0} held-out tasks, none of which was trained on.`,
    '',
    '`self` (the policy’s own answer in the team is rewarded) is no arm here: the policy has the last word, so its answer is',
    'the team’s.',
    '',
    '## What it shows',
    '',
    row('claim', 'found', 'more than 3 standard errors'),
    row('---', '---', '---'),
    ...verdictsOf(arms).map(({ claim, found, holds }) => row(claim, found, holds ? 'yes' : '**no**')),
    '',
    'The standard error is the larger of two: over tasks (paired, averaged over seeds) and over seeds, of which there are few.',
    '',
    ...againstAlone(arms),
    '',
    '## Before and after',
    '',
    row('arm', 'quantity', 'untrained', 'trained', 'change', 'by seed'),
    row('---', '---', '---', '---', '---', '---'),
    ...arms.flatMap(rowsOf),
    '',
    '± is the standard error over tasks. "By seed" lists the trained value of each seed.',
    '',
    ...worse(arms),
    '',
    ...apartLines(arms),
    '',
    '## Reward while training',
    '',
    'Mean reward of the batches, ten at a time, averaged over seeds. `mix` trains half of its groups on each objective.',
    '',
    ...curves(arms, steps),
    '',
  ];
  return lines.join('\n');
}

/** A team that gains is not yet a team that pays: what it achieves against the policy's plain answer. */
function againstAlone(arms: readonly Arm[]): string[] {
  const found = arms.map(({ objective, after }) => {
    return `\`${objective}\` ${shownDifference(difference(after.team, after.alone))}`;
  });
  const [first] = arms;
  const before = first && shownDifference(difference(first.before.team, first.before.alone));
  return [`The team less the policy alone: untrained ${before ?? '–'}, after ${found.join(', ')}.`];
}

function rowsOf({ objective, before, after }: Arm): string[] {
  return QUANTITIES.map(([quantity, name]) => {
    const seeds = after[quantity].map((one) => mean([one]).value.toFixed(3)).join(', ');
    const change = difference(after[quantity], before[quantity]);
    const cells = [shown(mean(before[quantity])), shown(mean(after[quantity])), shownDifference(change)];
    return row(`\`${objective}\``, name, ...cells, seeds);
  });
}

/** What got worse is said in words, not left to be found in the table. */
function worse(arms: readonly Arm[]): string[] {
  const found = arms.flatMap(({ objective, before, after }) =>
    QUANTITIES.flatMap(([quantity, name]) => {
      const change = difference(after[quantity], before[quantity]);
      const isWorse = change.value < -2 * Math.max(change.standardError, change.overSeeds);
      return isWorse ? [`- \`${objective}\`: ${name} ${shownDifference(change)}`] : [];
    }),
  );
  if (found.length === 0) return ['Nothing got worse by more than two standard errors.'];
  return ['What got worse, by more than two standard errors:', '', ...found];
}

/** Nats a token between trainer and fleet, on tokens that were just sampled, above which something is wrong. */
const LARGEST_GAP = 0.01;

function apartLines(arms: readonly Arm[]): string[] {
  const gaps = arms.flatMap(({ reports }) =>
    reports.flatMap(({ curve }) => curve.flatMap(({ gap }) => gap ?? [])),
  );
  const apart = gaps.filter((gap) => Math.abs(gap) > LARGEST_GAP);
  const usual = gaps.filter((gap) => Math.abs(gap) <= LARGEST_GAP).map((gap) => Math.abs(gap));
  const most = Math.max(...usual).toExponential(0);
  const said = `In ${apart.length} of ${gaps.length} batches trainer and fleet were more than ${LARGEST_GAP} nats a token apart, in the others at most ${most}.`;
  if (apart.length === 0) return [said];
  return [
    said,
    'In the one that was looked into, the tiny server had given two rollouts each other’s token once, which it no longer',
    'does; to the trainer such a token is all but impossible, so that its importance ratio, and with it what is learned from',
    'it, is next to nothing.',
  ];
}

function curves(arms: readonly Arm[], steps: number): string[] {
  const blocks = Array.from({ length: Math.ceil(steps / 10) }, (_, index) => 10 * index);
  const header = ['arm', 'reward', ...blocks.map((from) => `${from + 1}–${Math.min(steps, from + 10)}`)];
  const lines = [row(...header), row(...header.map(() => '---'))];
  for (const { objective, reports } of arms) {
    const rewarded = objective === 'mix' ? ['team', 'solo'] : [objective];
    for (const name of rewarded) {
      const cells = blocks.map((from) => {
        const points = reports.flatMap(({ curve }) => curve.slice(from, from + 10));
        const values = points.flatMap(
          ({ rewards }) => rewards.find((one) => one.objective === name)?.mean ?? [],
        );
        return (values.reduce((sum, value) => sum + value, 0) / values.length).toFixed(3);
      });
      lines.push(row(`\`${objective}\``, name, ...cells));
    }
  }
  return lines;
}
