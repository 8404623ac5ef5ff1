/** How the processes of the benchmark tell their parent where they listen: one line of JSON. */
import type { Server } from 'node:http';

export function announce(server: Server): void {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new TypeError('not a TCP server');
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${address.port}` })}\n`);
}
