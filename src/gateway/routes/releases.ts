/** GET /v1/releases: the versions of the hosted policies that this key may use, and how each came to its stage. */
import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import type { Release } from '../../contract/release.ts';
import type { GatewayParts } from '../ports.ts';

const Filter = Type.Object({ policy: Type.Optional(Type.String()) }, { additionalProperties: false });

/** Most that one answer holds; by policy, newest first. */
const MOST_LISTED = 500;

/** Where the artifact lies is the operator's business. */
function releaseBody({ artifact, servedAs, trainedOn, ...release }: Release) {
  return {
    object: 'release',
    policy: release.policy,
    version: release.version,
    stage: release.stage,
    served_as: servedAs,
    base: release.base,
    sha256: artifact.sha256,
    trained_on: trainedOn,
    history: release.history,
  };
}

export function releases(app: FastifyInstance, { store }: GatewayParts): void {
  app.get<{ Querystring: { policy?: string } }>(
    '/v1/releases',
    { schema: { querystring: Filter } },
    async (request) => {
      const all = await store.releases.list(request.query.policy);
      const allowed = all.filter(({ policy }) => request.caller.mayUse(policy));
      const data = allowed.slice(0, MOST_LISTED).map(releaseBody);
      return { object: 'list', data, has_more: allowed.length > MOST_LISTED };
    },
  );
}
