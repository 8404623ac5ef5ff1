/** How long a request waits for the store at most. */
const PATIENCE_MS = 300;

/** @throws when the store takes longer than a request waits; its answer is then nobody's */
export async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new RangeError('the store is slow')), PATIENCE_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
