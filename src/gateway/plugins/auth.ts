/** API keys: SHA-256 in the configuration, compared in constant time; every request gets a caller. */
import { hash, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import plugin from 'fastify-plugin';
import type { AuthConfig, KeyConfig } from '../../contract/auth-config.ts';
import { ConsortError } from '../../contract/errors.ts';
import type { Caller } from '../resolve.ts';

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller;
  }
}

const ANONYMOUS: Caller = { tenant: 'anonymous', mayUse: () => true, mayScore: true };

/** `*` matches any run of characters; everything else itself. */
function matcher(patterns: readonly string[]): (model: string) => boolean {
  const expressions = patterns.map((pattern) => {
    const literal = pattern.split('*').map((piece) => piece.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
    return new RegExp(`^${literal.join('.*')}$`);
  });
  return (model) => expressions.some((expression) => expression.test(model));
}

function sentKey({ headers }: FastifyRequest): string | undefined {
  const bearer = /^bearer\s+(.+)$/i.exec(headers.authorization ?? '')?.[1];
  const other = headers['x-api-key'];
  return bearer ?? (typeof other === 'string' ? other : undefined);
}

/** Looks at every key whatever the result, so that time tells nothing of those that are not known. */
function findKey(keys: readonly { digest: Buffer; caller: Caller }[], sent: string): Caller | undefined {
  const digest = hash('sha256', sent, 'buffer');
  let found: Caller | undefined;
  for (const key of keys) if (timingSafeEqual(key.digest, digest)) found = key.caller;
  return found;
}

function callerOf({ name, models, permissions }: KeyConfig): Caller {
  return { tenant: name, mayUse: matcher(models), mayScore: permissions.includes('score') };
}

export const auth = plugin((app: FastifyInstance, { required, keys }: AuthConfig, done: () => void) => {
  const known = keys.map((key) => ({ digest: Buffer.from(key.sha256, 'hex'), caller: callerOf(key) }));
  // Hashing costs more than all else here, and is not needed for a key that was right before: at most one a known key.
  const seen = new Map<string, Caller>();
  const callerWith = (sent: string) => {
    const before = seen.get(sent);
    if (before) return before;
    const caller = findKey(known, sent);
    if (caller) seen.set(sent, caller);
    return caller;
  };
  app.decorateRequest('caller');
  app.addHook('onRequest', (request, _reply, next) => {
    const sent = sentKey(request);
    // Without `required`, a placeholder key that some clients insist on sending is no reason to refuse.
    const caller = (sent === undefined ? undefined : callerWith(sent)) ?? (required ? undefined : ANONYMOUS);
    if (caller) request.caller = caller;
    next(caller ? undefined : new ConsortError(sent === undefined ? 'key_missing' : 'key_invalid'));
  });
  done();
});
