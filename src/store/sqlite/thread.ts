/** Thread entry: owns the file, answers the port. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { Database } from './database.ts';
import { Desk, failureOf } from './desk.ts';
import type { Request, ThreadMessage } from './messages.ts';

if (parentPort) serve(parentPort, String(workerData));

function serve(port: MessagePort, file: string): void {
  const say = (message: ThreadMessage) => port.postMessage(message);
  let desk: Desk;
  try {
    desk = new Desk(new Database(file, Date.now), (replies) => say({ replies }), Date.now);
  } catch (error) {
    say({ refused: failureOf(error) });
    port.close();
    return;
  }
  say({ opened: true });
  port.on('message', (requests: readonly Request[]) => {
    desk.handle(requests);
    if (!requests.some(({ method }) => method === 'close')) return;
    desk.stop();
    port.close();
  });
}
