/** Named chance from one secret and one prompt instance, and the seeds that go upstream. */
import { createHash, createHmac } from 'node:crypto';
import type { Call } from '../../contract/call.ts';
import type { Random } from '../../contract/capabilities.ts';
import type { Plan } from '../../contract/plan.ts';

const TWO_48 = 2 ** 48;

/**
 * HMAC-SHA-256 of the label, as a number in [0, 1) with 48 bits. It depends on the prompt instance and the
 * replicate, never on the coalition, so that coalitions of one prompt draw alike.
 */
export function chanceFor(secret: string, plan: Plan): Random {
  const prefix = `${plan.promptInstance}\0${plan.seed}\0${plan.replicate}\0`;
  return (label) =>
    createHmac('sha256', secret).update(prefix).update(label).digest().readUIntBE(0, 6) / TWO_48;
}

/**
 * The seed of one call: a 31-bit hash of plan seed, member, messages, sampling, sample and replicate. Two
 * coalitions that send the same prompt to the same member send the same seed.
 */
export function callSeed(plan: Plan, call: Call): number {
  const material = [
    plan.seed,
    call.member.alias,
    call.member.revision,
    call.messages,
    call.sampling,
    call.sample,
    plan.replicate,
    ...(call.tokens ? [call.tokens] : []),
  ];
  return createHash('sha256').update(JSON.stringify(material)).digest().readUInt32BE(0) >>> 1;
}
