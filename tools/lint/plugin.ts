/** Consort's own lint rules, loaded by .oxlintrc.json. They need the Node that the repository pins. */
import { arrows } from './arrows.ts';
import { environment, purity, quiet } from './reach.ts';

export default { meta: { name: 'consort' }, rules: { arrows, purity, environment, quiet } };
