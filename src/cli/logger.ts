/** The process log: JSON lines on standard error, so that standard output stays for results. */
import { destination, pino, type Logger } from 'pino';
import type { Environment } from '../config/secrets.ts';

export function createLogger(environment: Environment): Logger {
  const level = environment['CONSORT_LOG_LEVEL'] ?? 'info';
  const redact = ['*.apiKey', '*.authorization', 'req.headers.authorization', 'headers.authorization'];
  return pino(
    { level: level in pino.levels.values || level === 'silent' ? level : 'info', redact },
    destination(2),
  );
}
