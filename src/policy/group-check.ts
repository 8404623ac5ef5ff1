/** The invariants of a trajectory group, checked wherever one comes in or goes out: what is wrong, in words. */
import { Compile } from 'typebox/compile';
import { TrajectoryGroup, type Rollout, type Turn } from '../contract/trajectory.ts';
import { advantagesOf } from './advantages.ts';
import { fewestValid } from './groups.ts';
import { LARGEST_LOGPROB, SMALLEST_LOGPROB } from './turns.ts';

const schema = Compile(TrajectoryGroup);

/** Numbers that went through JSON come back as they were; this leaves room for another order of summing. */
const TOLERANCE = 1e-9;

/**
 * What is wrong with a value that should be a trajectory group; empty when nothing is.
 *
 * @param vocabulary how many token ids the policy's tokenizer has, if it is known
 */
export function groupProblems(value: unknown, vocabulary = Number.MAX_SAFE_INTEGER): string[] {
  if (!schema.Check(value)) {
    return schema.Errors(value).map(({ instancePath, message }) => `${instancePath || '/'} ${message}`);
  }
  const { rollouts, policy, filter } = value;
  // A group that is refused for its versions is complete all the same.
  const version = filter.accepted ? policy.version : undefined;
  return [
    ...sizeProblems(value),
    ...rollouts.flatMap((rollout) => rewardProblems(rollout)),
    ...baselineProblems(value),
    ...rollouts.flatMap(({ index, turns }) =>
      turns.flatMap((turn, position) => {
        const problems = [
          ...orderProblems(turn, position),
          ...(turn.trainable ? tokenProblems(turn, version, vocabulary) : []),
        ];
        return problems.map((problem) => `rollout ${index}, turn ${position}: ${problem}`);
      }),
    ),
    ...filterProblems(value),
  ];
}

function sizeProblems({ groupSize, rollouts }: TrajectoryGroup): string[] {
  const problems: string[] = [];
  if (rollouts.length !== groupSize) problems.push(`${rollouts.length} rollouts in a group of ${groupSize}`);
  for (const [position, { index }] of rollouts.entries()) {
    if (index !== position) problems.push(`rollout ${position} has index ${index}`);
  }
  if (new Set(rollouts.map(({ rolloutId }) => rolloutId)).size < rollouts.length) {
    problems.push('two rollouts have the same rolloutId');
  }
  return problems;
}

function rewardProblems({ index, status, reward, advantage }: Rollout): string[] {
  const isInvalid = status === 'invalid';
  const problems: string[] = [];
  if ((reward === null) !== isInvalid) problems.push(`rollout ${index} is ${status} with reward ${reward}`);
  if ((advantage === null) !== isInvalid)
    problems.push(`rollout ${index} is ${status} with advantage ${advantage}`);
  return problems;
}

function baselineProblems({ rollouts, baseline }: TrajectoryGroup): string[] {
  const { kind } = baseline;
  const expected = advantagesOf(
    rollouts.map(({ reward }) => reward),
    kind,
  );
  const problems: string[] = [];
  for (const field of ['mean', 'std', 'valid'] as const) {
    if (!isNear(baseline[field], expected[field]))
      problems.push(`baseline.${field} is ${baseline[field]}; the rewards give ${expected[field]}`);
  }
  for (const [index, { advantage }] of rollouts.entries()) {
    const right = expected.advantages[index] ?? null;
    if (advantage !== null && right !== null && !isNear(advantage, right))
      problems.push(`rollout ${index} has advantage ${advantage}; its reward gives ${right} (${kind})`);
  }
  return problems;
}

function isNear(a: number, b: number): boolean {
  return Math.abs(a - b) <= TOLERANCE * Math.max(1, Math.abs(b));
}

function orderProblems({ turnIndex, parentTurns }: Turn, position: number): string[] {
  const problems: string[] = [];
  if (turnIndex !== position) problems.push(`turnIndex is ${turnIndex}`);
  const late = parentTurns.find((parent) => parent >= position);
  if (late !== undefined) problems.push(`reads turn ${late}, which comes later`);
  return problems;
}

function tokenProblems(turn: Turn, version: number | undefined, vocabulary: number): string[] {
  const { promptTokenIds: prompt, responseTokenIds: ids, responseLogprobs: logprobs, sampling } = turn;
  if (!turn.isPolicy) return ['is trainable and not the policy’s'];
  if (!prompt || !ids || !logprobs) return ['is trainable without token ids and log-probs'];
  const problems: string[] = [];
  if (version !== undefined && turn.policyVersion !== version) {
    problems.push(`was sampled by version ${turn.policyVersion} of the policy, the group by ${version}`);
  }
  if (ids.length === 0) problems.push('has no response');
  if (ids.length !== logprobs.length)
    problems.push(`has ${ids.length} token ids and ${logprobs.length} log-probs`);
  const foreign = [...prompt, ...ids].find((id) => id >= vocabulary);
  if (foreign !== undefined) problems.push(`has token id ${foreign} in a vocabulary of ${vocabulary}`);
  const odd = logprobs.find((value) => !(value >= SMALLEST_LOGPROB && value <= LARGEST_LOGPROB));
  if (odd !== undefined) problems.push(`has log-prob ${odd}`);
  if (sampling.temperature !== 1 || sampling.topP !== 1) {
    problems.push(`was sampled at temperature ${sampling.temperature}, top_p ${sampling.topP}`);
  }
  if (sampling.constrained) problems.push('was decoded under a constraint');
  return problems;
}

function filterProblems({ filter, rollouts, baseline, groupSize }: TrajectoryGroup): string[] {
  const { accepted, reasons } = filter;
  if (!accepted) return reasons.length > 0 ? [] : ['is not accepted and gives no reason'];
  const problems = reasons.map((reason) => `is accepted in spite of ${reason}`);
  const fewest = fewestValid(groupSize);
  if (baseline.valid < fewest)
    problems.push(`is accepted with ${baseline.valid} valid rollouts; ${fewest} are needed`);
  if (rollouts.every(({ advantage }) => !advantage))
    problems.push('is accepted and has no advantage but zero');
  const trained = rollouts.some(
    ({ advantage, turns }) => advantage !== null && turns.some((t) => t.trainable),
  );
  if (!trained) problems.push('is accepted and has nothing to train on');
  return problems;
}
