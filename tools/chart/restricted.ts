/**
 * The restricted Pod Security Standard (https://kubernetes.io/docs/concepts/security/pod-security-standards/), and
 * beyond it: a read-only root, no token of the service account, a memory request.
 */
import { nameOf, type Manifest } from './manifests.ts';

interface SecurityContext {
  readonly privileged?: boolean;
  readonly allowPrivilegeEscalation?: boolean;
  readonly readOnlyRootFilesystem?: boolean;
  readonly runAsNonRoot?: boolean;
  readonly runAsUser?: number;
  readonly seccompProfile?: { readonly type: string };
  readonly capabilities?: { readonly drop?: readonly string[]; readonly add?: readonly string[] };
}
interface Container {
  readonly name: string;
  readonly securityContext?: SecurityContext;
  readonly ports?: readonly { readonly hostPort?: number }[];
  readonly resources?: { readonly requests?: Readonly<Record<string, string>> };
}
interface PodSpec {
  readonly hostNetwork?: boolean;
  readonly hostPID?: boolean;
  readonly hostIPC?: boolean;
  readonly automountServiceAccountToken?: boolean;
  readonly securityContext?: SecurityContext;
  readonly volumes?: readonly Readonly<Record<string, unknown>>[];
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
}

const VOLUMES = new Set([
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
]);

/** What is wrong with the pods of a manifest; nothing when it has none. */
export function restrictedProblems(manifest: Manifest): string[] {
  const { template } = (manifest['spec'] ?? {}) as { template?: { spec?: PodSpec } };
  const pod = template?.spec;
  if (!pod) return [];
  const containers = [...pod.containers, ...(pod.initContainers ?? [])];
  const problems = [
    ...podProblems(pod),
    ...containers.flatMap((container) =>
      containerProblems(container, pod).map((problem) => `${container.name} ${problem}`),
    ),
  ];
  return problems.map((problem) => `${nameOf(manifest)}: ${problem}`);
}

const named = (checks: Readonly<Record<string, boolean>>): string[] =>
  Object.entries(checks).flatMap(([problem, holds]) => (holds ? [problem] : []));

function podProblems(pod: PodSpec): string[] {
  const kinds = (pod.volumes ?? []).flatMap((volume) => Object.keys(volume).filter((key) => key !== 'name'));
  return named({
    'shares a namespace of the host': Boolean(pod.hostNetwork || pod.hostPID || pod.hostIPC),
    'mounts a token of the service account': pod.automountServiceAccountToken !== false,
    'has a volume of a kind that is not allowed': kinds.some((kind) => !VOLUMES.has(kind)),
  });
}

function containerProblems({ securityContext: own = {}, ports = [], resources }: Container, pod: PodSpec) {
  const context = { ...pod.securityContext, ...own };
  const { drop = [], add = [] } = own.capabilities ?? {};
  return named({
    'is privileged': own.privileged === true,
    'may escalate its privileges': own.allowPrivilegeEscalation !== false,
    'keeps capabilities': !drop.includes('ALL'),
    'adds capabilities': add.some((capability) => capability !== 'NET_BIND_SERVICE'),
    'may run as root': context.runAsNonRoot !== true || context.runAsUser === 0,
    'has no seccomp profile': !['RuntimeDefault', 'Localhost'].includes(context.seccompProfile?.type ?? ''),
    'takes a port of the host': ports.some(({ hostPort }) => hostPort !== undefined),
    'has a root file system that can be written to': own.readOnlyRootFilesystem !== true,
    'requests no memory': resources?.requests?.['memory'] === undefined,
  });
}
