/** One action on every replica, and one error for what failed: the same everywhere, or a fleet in parts. */
import { ConsortError } from '../../contract/errors.ts';

/**
 * Runs the action on all replicas at once and waits for all.
 *
 * @throws when it fails on all alike, that error; else `serving_partial` with the reason of each
 */
export async function onEvery<R extends { readonly name: string }, T>(
  replicas: readonly R[],
  what: string,
  action: (replica: R) => Promise<T>,
): Promise<T[]> {
  const results = await Promise.allSettled(replicas.map((replica) => action(replica)));
  const values = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const errors = results.flatMap((result) =>
    result.status === 'rejected' ? [ConsortError.from(result.reason)] : [],
  );
  const [first] = errors;
  if (!first) return values;
  if (values.length === 0 && errors.every(({ code }) => code === first.code)) throw first;
  const reasons = errors.map(({ message }) => message).join('; ');
  throw new ConsortError('serving_partial', [values.length, replicas.length, what, reasons], {
    cause: new AggregateError(errors),
    retryable: errors.some(({ retryable }) => retryable),
  });
}
