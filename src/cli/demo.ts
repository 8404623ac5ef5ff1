/** consort demo: the guided tour. */
import type { Command } from './command.ts';

export const demo: Command = {
  name: 'demo',
  summary: 'the guided tour: a team of tiny real models, its answers and what each member is worth',
  usage: '[--port N] [--limit TASKS] [--once]',
  options: {
    port: { type: 'string' },
    limit: { type: 'string' },
    once: { type: 'boolean', default: false },
  },
  async run(invocation) {
    // Only the tour needs the client library, and only a checkout has it.
    const { runTour } = await import('./demo/run.ts');
    return runTour(invocation);
  },
};
