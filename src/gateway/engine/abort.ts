/** Waiting for work only as long as somebody wants it. */

/** Settles with `work`, or rejects with the signal's reason as soon as it is aborted. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    // Whoever aborts gives a catalogue error as the reason.
    const leave = () => reject(signal.reason as Error);
    if (signal.aborted) leave();
    signal.addEventListener('abort', leave, { once: true });
    void work.then(resolve, reject).then(() => signal.removeEventListener('abort', leave));
  });
}
