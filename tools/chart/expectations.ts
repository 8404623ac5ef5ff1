/** What the chart promises beyond the schemas of its manifests. */
import type { Manifest } from './manifests.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A value by its dotted path. */
function at(value: unknown, path: string): unknown {
  let found = value;
  for (const step of path.split('.')) found = (found as Fields | undefined)?.[step];
  return found;
}

export interface Case {
  /** The values after the minimal ones. */
  readonly when: string;
  readonly object: string;
  /** A dotted path, or nothing for the object itself. */
  readonly path?: string;
  readonly is: unknown;
}

const GATEWAY = 'Deployment/team-consort-gateway';
const BUDGET = 'PodDisruptionBudget/team-consort-gateway';
const POD = 'spec.template.spec';
const scaled = 'gateway: { autoscaling: { enabled: true } }';

export const CASES: readonly Case[] = [
  { when: '{}', object: GATEWAY, path: 'spec.replicas', is: 2 },
  { when: scaled, object: GATEWAY, path: 'spec.replicas', is: undefined },
  { when: '{}', object: GATEWAY, path: `${POD}.terminationGracePeriodSeconds`, is: 15 + 540 + 15 },
  {
    when: 'gateway: { maxStreamSeconds: 60, preStopSeconds: 5 }',
    object: GATEWAY,
    path: `${POD}.terminationGracePeriodSeconds`,
    is: 5 + 60 + 15,
  },
  { when: 'gateway: { replicas: 1 }', object: BUDGET, is: undefined },
  { when: '{}', object: BUDGET, path: 'spec.maxUnavailable', is: 1 },
  { when: '{}', object: 'Deployment/team-consort-scorer', path: 'spec.replicas', is: 1 },
  { when: '{}', object: 'Deployment/team-consort-learner', is: undefined },
  {
    when: 'learner: { enabled: true, volumes: [{ name: runs, claim: runs, mountPath: /runs }] }',
    object: 'Deployment/team-consort-learner',
    path: `${POD}.volumes.3.persistentVolumeClaim.claimName`,
    is: 'runs',
  },
  {
    when: 'image: { tag: "9" }',
    object: GATEWAY,
    path: `${POD}.containers.0.image`,
    is: 'registry.example/consort:9',
  },
  { when: 'nameOverride: gate', object: 'Service/team-gate', path: 'spec.ports.length', is: 1 },
  {
    when: 'gateway: { spoolMaxMiB: 100 }',
    object: GATEWAY,
    path: `${POD}.volumes.1.emptyDir.sizeLimit`,
    is: '164Mi',
  },
];

/** What a case finds instead of what it expects, or nothing. */
export function disappointment({ when, object, path, is }: Case, manifests: readonly Manifest[]): string[] {
  const found = manifests.find(({ kind, metadata }) => `${kind}/${metadata.name}` === object);
  const value = path === undefined ? found : at(found, path);
  if (value === is) return [];
  return [`with ${when}: ${object} ${path ?? ''} is ${JSON.stringify(value)}, not ${JSON.stringify(is)}`];
}

/** Whatever the values: the chart makes no secrets, and no version moves a pod or a selector. */
export function promiseProblems(manifests: readonly Manifest[]): string[] {
  return manifests.flatMap((manifest) => {
    const name = `${manifest.kind}/${manifest.metadata.name}`;
    if (manifest.kind === 'Secret') return [`${name}: the chart must make no secret`];
    const labels = Object.keys(at(manifest, 'spec.template.metadata.labels') ?? {});
    const versioned = labels.filter((label) => /version|chart/.test(label));
    return versioned.map((label) => `${name}: the label ${label} of its pods changes with every version`);
  });
}
