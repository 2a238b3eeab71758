import type { Command } from './command.ts';

interface Input {
  window: number;
  max_window?: number;
  key?: string;
}

/** Collects the inputs of runs until its window closes. */
export const digest: Command<Input> = {
  begin: (_context, { input: { window, max_window: maxWindow = window, key } }) => ({
    kind: 'collect',
    ...(key === undefined ? {} : { key }),
    windowMs: window * 1_000,
    maxWindowMs: maxWindow * 1_000,
  }),
};
