import type { Command } from './command.ts';

/** Ends the run as aborted. */
export const abort: Command<{ reason?: string }> = {
  begin: (_context, { input: { reason } }) => ({
    kind: 'abort',
    ...(reason === undefined ? {} : { reason }),
  }),
};
