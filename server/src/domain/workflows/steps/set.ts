import type { Command } from './command.ts';

/** Sets values for later steps. */
export const set: Command<object> = {
  begin: (_context, { input }) => ({ kind: 'done', output: input, data: input }),
};
