/** A plain model's requests to other routes than chat: sent on with the client's own body, answered with its own bytes. */
import type { PassedRoute } from '../../contract/call.ts';
import type { RequestExtension } from '../../contract/chat.ts';
import type { GatewayParts } from '../ports.ts';
import type { Resolved } from '../resolve.ts';
import { dialectOf } from '../upstreams/fleet.ts';

/** A body of which we read the model, and what is ours. */
export interface PassedBody {
  readonly model: string;
  readonly consort?: RequestExtension;
  readonly [field: string]: unknown;
}

/** Undefined for a team, and for a model whose API has no such route. */
export function passed(
  { catalog }: Pick<GatewayParts, 'catalog'>,
  resolved: Resolved,
  route: PassedRoute,
  { consort: _consort, ...passThrough }: PassedBody,
): Resolved | undefined {
  const { system, task } = resolved;
  const model = system.plain ? catalog().models.get(system.id) : undefined;
  if (!model || !dialectOf(model).routes?.includes(route)) return undefined;
  return { ...resolved, task: { ...task, route, passThrough } };
}
