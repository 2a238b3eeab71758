import type { Command } from './command.ts';

/** Waits for an event. Events continue the run in engine/continue-waiting.ts. */
export const waitFor: Command<{ event: string; timeout: number }> = {
  timedOut: { timed_out: true },
  begin: ({ clock }, { input: { event, timeout } }) => ({
    kind: 'wait',
    event,
    untilMs: clock.now() + timeout * 1_000,
  }),
};
