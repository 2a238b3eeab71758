import type { Command } from './command.ts';

interface Input {
  limit: number;
  window: number;
  key?: string;
}

/** Ends the run if too many others have passed. */
export const throttle: Command<Input> = {
  begin: (_context, { input: { limit, window, key } }) => ({
    kind: 'throttle',
    ...(key === undefined ? {} : { key }),
    limit,
    windowMs: window * 1_000,
  }),
};
