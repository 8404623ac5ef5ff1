/** The part of the configuration about shadow evaluation: which live requests are run again, and by whom. */
import Type from 'typebox';

const strict = { additionalProperties: false };
const section = { additionalProperties: false, default: {} };

export const ShadowConfig = Type.Object(
  {
    fraction: Type.Number({
      exclusiveMinimum: 0,
      maximum: 1,
      description: 'Share of live requests with a gold answer that is run again by other coalitions.',
    }),
    designs: Type.Object(
      {
        duel: Type.Number({
          default: 0.5,
          minimum: 0,
          description: 'Weight of duels (centred Shapley).',
        }),
        'leave-one-out': Type.Number({
          default: 0.5,
          minimum: 0,
          description: 'Weight of the team without one member.',
        }),
      },
      section,
    ),
    usdPerDay: Type.Number({
      minimum: 0,
      description: 'Most that shadow runs of this system may cost a UTC day.',
    }),
    maxActive: Type.Integer({
      default: 32,
      minimum: 0,
      description: 'Shadow work waits while more live requests than this are under way in the process.',
    }),
  },
  strict,
);
