/** GET /v1/models and /v1/models/{id}: what this key may ask for. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ConsortError } from '../../contract/errors.ts';
import type { System } from '../catalog.ts';
import type { GatewayParts } from '../ports.ts';
import { mayCallTools } from '../protocols/ask-all.ts';
import { streamsWith } from '../protocols/protocol.ts';

function modelBody(parts: GatewayParts, name: string, system: System) {
  const { protocol, options, pool } = system;
  const members = pool.members.map(({ alias }) => alias);
  const { method } = pool.merges ?? {};
  const description = system.plain
    ? (parts.catalog().models.get(system.id)?.description ?? '')
    : `${protocol.summary} Pool ${pool.id}${method ? `, merged by ${method}` : ''}: ${members.join(', ')}.`;
  return {
    id: name,
    object: 'model',
    created: 0,
    owned_by: 'consort',
    description,
    ...(system.simulated && { simulated: true }),
    consort: {
      protocol: protocol.name,
      options,
      members,
      streams: streamsWith(protocol, options),
      tools: protocol.tools && pool.members.some(mayCallTools),
      shape: protocol.describe(options, pool.merges ? 1 : members.length),
      pool_revision: pool.revision,
      protocol_revision: system.protocolRevision,
    },
  };
}

export function models(app: FastifyInstance, parts: GatewayParts): void {
  const list = ({ caller }: Pick<FastifyRequest, 'caller'>) => {
    const allowed = [...parts.catalog().systems].filter(([name]) => caller.mayUse(name));
    return {
      object: 'list',
      data: allowed.map(([name, system]) => modelBody(parts, name, system)),
      ...(parts.notice && { notice: parts.notice }),
    };
  };

  app.get('/v1/models', list);

  app.get<{ Params: { '*': string } }>('/v1/models/*', (request) => {
    // Some clients end every path with a slash, and no name does.
    const name = request.params['*'].replace(/\/$/, '');
    if (name === '') return list(request);
    const system = parts.catalog().systems.get(name);
    if (!system || !request.caller.mayUse(name)) throw new ConsortError('model_not_found', [name]);
    return modelBody(parts, name, system);
  });
}
