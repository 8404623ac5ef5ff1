/** Names that a configuration gives to what it describes. */
import Type from 'typebox';

/** @param description what bears the name */
export const Alias = (description: string) =>
  Type.String({ pattern: '^[a-z0-9][a-z0-9.-]{0,63}$', description: `${description} ([a-z0-9][a-z0-9.-]*)` });
