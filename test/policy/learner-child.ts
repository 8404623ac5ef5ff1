/** A learner that gets killed: rounds of two groups on a fake trainer. Arguments: server, directory, rounds. */
import { advanceTo, learnerOn } from './learner-site.ts';

const [baseUrl = '', directory = '', rounds = ''] = process.argv.slice(2);
const { learner, trainer } = await learnerOn(baseUrl, directory);
await advanceTo(learner, Number(rounds));
await trainer.close();
