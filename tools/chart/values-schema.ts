/** helm/values.schema.json: the values of the chart, and under `config` the configuration file as the program knows it. */
import Type, { type TSchema } from 'typebox';
import { Config } from '../../src/contract/config.ts';

const object = (properties: Record<string, TSchema>) =>
  Type.Object(properties, { additionalProperties: false });
const Text = Type.String();
const Count = (minimum: number) => Type.Integer({ minimum });
const Texts = Type.Record(Text, Text);
/** Handed on as it is; the API server checks it. */
const Free = Type.Record(Text, Type.Unknown());
const Items = Type.Array(Free);

const NAME = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
/** The name of an object, or nothing. */
const Name = Type.String({ pattern: `^(${NAME}(\\.${NAME})*)?$`, maxLength: 253 });
const SecretKey = object({ name: Name, key: Type.String({ minLength: 1 }) });
const Names = Type.Array(Type.String({ pattern: `^${NAME}$`, maxLength: 56 }), { uniqueItems: true });

const workload = {
  resources: Free,
  podLabels: Texts,
  podAnnotations: Texts,
  nodeSelector: Texts,
  tolerations: Items,
  affinity: Free,
  priorityClassName: Name,
};

/** An existing claim and where a pod mounts it. */
const Volume = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?$' }),
    claim: Type.String({ minLength: 1 }),
    mountPath: Type.String({ pattern: '^/' }),
    readOnly: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
);

const Values = object({
  /** Helm adds it where the chart is part of another. */
  global: Type.Optional(Free),
  nameOverride: Name,
  fullnameOverride: Name,
  image: object({
    repository: Text,
    tag: Type.String({ pattern: '^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$' }),
    digest: Type.String({ pattern: '^(sha256:[0-9a-f]{64})?$' }),
    pullPolicy: Type.Enum(['Always', 'IfNotPresent', 'Never']),
    pullSecrets: Names,
  }),
  config: Type.Unknown(),
  secrets: object({ redis: SecretKey, shared: SecretKey, environment: Names, files: Names }),
  extraEnv: Items,
  gateway: object({
    replicas: Count(1),
    maxStreamSeconds: Count(1),
    preStopSeconds: Count(1),
    spoolMaxMiB: Count(1),
    autoscaling: object({
      enabled: Type.Boolean(),
      minReplicas: Count(1),
      maxReplicas: Count(1),
      cpuPercent: Count(1),
    }),
    ...workload,
  }),
  scorer: object({ replicas: Count(0), ...workload }),
  learner: object({ enabled: Type.Boolean(), volumes: Type.Array(Volume), ...workload }),
  serviceAccount: object({ annotations: Texts }),
  service: object({
    type: Type.Enum(['ClusterIP', 'NodePort', 'LoadBalancer']),
    port: Type.Integer({ minimum: 1, maximum: 65_535 }),
    annotations: Texts,
  }),
  ingress: object({
    enabled: Type.Boolean(),
    className: Name,
    annotations: Texts,
    hosts: Type.Array(Type.String({ minLength: 1 })),
    tls: Items,
  }),
  networkPolicy: object({
    enabled: Type.Boolean(),
    clients: Items,
    scrapers: Items,
    redisPort: Type.Integer({ minimum: 1, maximum: 65_535 }),
    extraEgress: Items,
  }),
  metrics: object({
    podMonitor: object({
      enabled: Type.Boolean(),
      interval: Type.String({ pattern: '^[0-9]+(ms|s|m)$' }),
      labels: Texts,
    }),
    rules: object({ enabled: Type.Boolean(), labels: Texts }),
    dashboards: object({ enabled: Type.Boolean(), labels: Texts, annotations: Texts }),
  }),
});

/** A JSON schema, as far as it is rewritten here. */
interface Schema {
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  default?: unknown;
  pattern?: string;
}

/** What the chart sets itself, by its section. */
const OF_THE_CHART: Readonly<Record<string, readonly string[]>> = {
  server: ['host', 'port', 'adminHost', 'adminPort', 'maxStreamSeconds', 'drainSeconds'],
  store: ['url', 'spoolDirectory', 'spoolMaxBytes'],
};

/** The schema of a document before the program fills in its defaults, without a secret that is written out. */
function asWritten(schema: Schema): Schema {
  const { properties, items } = schema;
  for (const child of Object.values(properties ?? {})) asWritten(child);
  if (items) asWritten(items);
  if (properties?.['apiKey']) properties['apiKey'].pattern = '^(\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}|file:/.+)$';
  if (schema.required && properties) {
    schema.required = schema.required.filter((name) => properties[name]?.default === undefined);
    if (schema.required.length === 0) delete schema.required;
  }
  return schema;
}

export function valuesSchema(): unknown {
  const config = asWritten(JSON.parse(JSON.stringify(Config)) as Schema);
  for (const [section, fields] of Object.entries(OF_THE_CHART)) {
    for (const field of fields) delete config.properties?.[section]?.properties?.[field];
  }
  const schema = JSON.parse(JSON.stringify(Values)) as Schema;
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    ...schema,
    properties: { ...schema.properties, config },
  };
}
