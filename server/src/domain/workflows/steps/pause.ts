import type { Command } from './command.ts';

/** Waits until the run is resumed. */
export const pause: Command<object> = { begin: () => ({ kind: 'wait' }) };
