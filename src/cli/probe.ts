/** What the endpoints of a configuration can do, asked of them, beside what the configuration says of them. */
import type { Logger } from 'pino';
import type { Config, ModelConfig } from '../contract/config.ts';
import { Capabilities } from '../contract/plan.ts';
import { dialectOf, placesOf } from '../gateway/upstreams/fleet.ts';
import type { Finding, ProbeReport } from '../gateway/upstreams/probe.ts';

export interface Probed {
  readonly model: ModelConfig;
  /** Undefined for a model that has no endpoint. */
  readonly report?: ProbeReport;
}

/** All endpoints side by side, each asked one question after the other. */
export function probeAll({ models }: Config): Promise<Probed[]> {
  return Promise.all(
    models.map(async (model) => {
      // Behind all endpoints of a model is the same one: the first speaks for it.
      const [place = model] = placesOf(model);
      const report = await dialectOf(model).probe?.(place);
      return { model, ...(report && { report }) };
    }),
  );
}

/** What a configuration would say of this endpoint. */
function foundIn({ findings }: ProbeReport): Capabilities {
  return Object.fromEntries(findings.map(({ capability, value }) => [capability, value]));
}

/**
 * The configuration with what its endpoints were found to be able to do, where it does not say so itself. An endpoint
 * that does not answer is left as it is configured, as it may be up later.
 */
export async function withProbed(config: Config, logger: Logger): Promise<Config> {
  const probed = await probeAll(config);
  const models = probed.map(({ model, report }) => {
    if (!report) return model;
    if (report.error) {
      logger.warn(
        { model: model.id, code: report.error.code },
        'the endpoint could not be asked what it can do',
      );
      return model;
    }
    const found = foundIn(report);
    logger.info({ model: model.id, found, configured: model.capabilities ?? {} }, 'the endpoint was asked');
    return { ...model, capabilities: { ...found, ...model.capabilities } };
  });
  return { ...config, models };
}

export function probeJson({ model, report }: Probed): object {
  if (!report) return { model: model.id, simulated: true };
  const { requests, usage, error } = report;
  return {
    model: model.id,
    configured: model.capabilities ?? {},
    capabilities: foundIn(report),
    signs: Object.fromEntries(report.findings.map(({ capability, sign }) => [capability, sign])),
    requests,
    usage,
    ...(error && { error: error.toBody().error }),
  };
}

function shown(value: Finding['value']): string {
  if (value === undefined) return '-';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return typeof value === 'object' ? `${Object.keys(value).length} labels` : String(value);
}

export function probeText({ model, report }: Probed): string {
  const { id, capabilities: configured = {} } = model;
  if (!report) return `${id}: simulated, there is no endpoint to ask\n`;
  const { requests, usage, error } = report;
  if (error) return `${id}: ${error.message}\n  → ${error.remedy}\n`;
  const names = Object.keys(Capabilities.properties) as (keyof Capabilities)[];
  const rows = names.map((name) => {
    const finding = report.findings.find(({ capability }) => capability === name);
    const differs =
      finding && configured[name] !== undefined && shown(configured[name]) !== shown(finding.value);
    const cells = [shown(configured[name]).padEnd(12), shown(finding?.value).padEnd(20)];
    return `  ${name.padEnd(15)} ${cells.join(' ')} ${differs ? 'DIFFERS: ' : ''}${finding?.sign ?? 'not found out'}`;
  });
  const tokens = `${usage.inputTokens} + ${usage.outputTokens} tokens`;
  return [
    `${id} (${requests} requests, ${tokens})`,
    `  ${'capability'.padEnd(15)} ${'configured'.padEnd(12)} ${'found'.padEnd(20)} by`,
    ...rows.map((row) => row.trimEnd()),
    `  capabilities: ${JSON.stringify(foundIn(report))}`,
    '',
  ].join('\n');
}
