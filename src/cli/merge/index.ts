/** consort merge: writes what mergekit or PEFT needs to merge the weights of a coalition. It merges nothing itself. */
import { textFlag, type Command } from '../command.ts';
import { loadSettings } from '../settings.ts';
import { jobOf, type Job } from './job.ts';
import { readMerges } from './request.ts';
import { writeJobs } from './write.ts';

function textOf(jobs: readonly Job[], written: readonly boolean[]): string {
  const blocks = jobs.map(({ directory, commands }, index) => {
    const state = written[index] ? 'written' : 'as it was';
    return [`${directory} (${state}); nothing is merged yet. Run:`, ...commands.map((line) => `  ${line}`)];
  });
  const last = `Then put ${jobs.length === 1 ? 'its model.yaml' : 'their model.yaml'} into models of the configuration.`;
  return `${[...blocks.flat(), last].join('\n')}\n`;
}

export const merge: Command = {
  name: 'merge',
  summary: 'write the jobs that merge the weights of a coalition, for mergekit or PEFT',
  usage:
    '--coalition A,B|--pool ID --method NAME [--all: each coalition of two or more] [--out DIR] ' +
    '[--weights X,Y] [--density D] [--lambda L] [--t T] [--dtype bfloat16]',
  options: {
    coalition: { type: 'string' },
    pool: { type: 'string' },
    method: { type: 'string' },
    all: { type: 'boolean', default: false },
    out: { type: 'string' },
    weights: { type: 'string' },
    density: { type: 'string' },
    lambda: { type: 'string' },
    t: { type: 'string' },
    dtype: { type: 'string' },
  },
  async run(invocation) {
    const { flags } = invocation;
    const { config } = await loadSettings(invocation);
    const out = textFlag(flags, 'out') ?? 'merge-jobs';
    const jobs = readMerges(flags, config).map((one) => jobOf(one, out));
    const written = writeJobs(jobs);
    const summary = jobs.map(({ id, directory, commands }, index) => ({
      id,
      directory,
      written: written[index],
      commands,
    }));
    process.stdout.write(flags['json'] ? `${JSON.stringify({ jobs: summary })}\n` : textOf(jobs, written));
    return 0;
  },
};
