/** The list of protocols: the only place besides its own file where a protocol's name occurs. */
import { aggregate } from './aggregate.ts';
import { anchor } from './anchor.ts';
import { bestOfN } from './best-of-n.ts';
import { blackboard } from './blackboard.ts';
import { cascade } from './cascade.ts';
import { debate } from './debate.ts';
import { feedback } from './feedback.ts';
import { fuse } from './fuse.ts';
import { generateVerifyRefine } from './generate-verify-refine.ts';
import { graphRoute } from './graph-route.ts';
import { knowledgeCard } from './knowledge-card.ts';
import { logitContrast } from './logit-contrast.ts';
import { logitFusion } from './logit-fusion.ts';
import { mentor } from './mentor.ts';
import { mixture } from './mixture.ts';
import { mux } from './mux.ts';
import { nudge } from './nudge.ts';
import type { Protocol } from './protocol.ts';
import { rankFuse } from './rank-fuse.ts';
import { refine } from './refine.ts';
import { relay } from './relay.ts';
import { route } from './route.ts';
import { single } from './single.ts';
import { structured } from './structured.ts';
import { swarm } from './swarm.ts';
import { switching } from './switch.ts';
import { threeRoles } from './three-roles.ts';
import { trainedRoute } from './trained-route.ts';
import { vote } from './vote.ts';

export const protocols: readonly Protocol[] = [
  single,
  vote,
  debate,
  fuse,
  route,
  trainedRoute,
  graphRoute,
  cascade,
  mux,
  anchor,
  generateVerifyRefine,
  threeRoles,
  logitFusion,
  logitContrast,
  nudge,
  mentor,
  switching,
  bestOfN,
  rankFuse,
  mixture,
  refine,
  feedback,
  structured,
  swarm,
  knowledgeCard,
  relay,
  blackboard,
  aggregate,
];
