/** consort serve: the gateway, until SIGTERM or Ctrl-C. */
import { SYSTEM_PREFIX } from '../gateway/catalog.ts';
import type { Command } from './command.ts';
import { startGateway, type RunningGateway } from './gateway.ts';
import { createLogger } from './logger.ts';
import { loadSettings, type Settings } from './settings.ts';
import { version } from './version.ts';

/** Resolves at the first SIGTERM or SIGINT; a second one ends the process at once. */
export function untilSignal(): Promise<void> {
  return new Promise((resolve) => {
    const stop = () => {
      for (const signal of ['SIGTERM', 'SIGINT'] as const) {
        process.off(signal, stop);
        process.once(signal, () => process.exit(1));
      }
      resolve();
    };
    process.on('SIGTERM', stop).on('SIGINT', stop);
  });
}

export function banner({ config, notice }: Settings, { url, adminUrl }: RunningGateway): string {
  const systems = config.systems.map(({ id }) => SYSTEM_PREFIX + id);
  const model = systems[0] ?? config.models[0]?.id ?? '';
  const body = JSON.stringify({
    model,
    stream: true,
    messages: [
      { role: 'user', content: 'Simulated task sim:reason/42. Which four-digit number does it stand for?' },
    ],
  });
  return [
    `consort ${version} serves ${url} (probes and metrics at ${adminUrl})`,
    ...(notice ? [notice] : []),
    `models:  ${config.models.map(({ id }) => id).join(', ') || 'none'}`,
    `systems: ${systems.join(', ') || 'none'}`,
    `try:     curl -N ${url}/v1/chat/completions -H 'content-type: application/json' -d '${body}'`,
    '',
  ].join('\n');
}

export const serve: Command = {
  name: 'serve',
  summary: 'the gateway',
  usage: '[--port N] [--admin-port N] [--store URL]',
  options: { port: { type: 'string' }, 'admin-port': { type: 'string' }, store: { type: 'string' } },
  async run(invocation) {
    const settings = await loadSettings(invocation);
    const gateway = await startGateway(
      settings,
      invocation.environment,
      createLogger(invocation.environment),
    );
    const { url, adminUrl } = gateway;
    if (invocation.flags['json'])
      process.stdout.write(`${JSON.stringify({ url, adminUrl, notice: settings.notice })}\n`);
    else process.stdout.write(banner(settings, gateway));
    await untilSignal();
    const ended = await gateway.close();
    // Whoever watches the process sees that somebody went without an answer.
    return ended > 0 ? 1 : 0;
  },
};
