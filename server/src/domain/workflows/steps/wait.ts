import { MAX_WAIT_SECONDS } from '../../../contract/workflow.ts';
import type { Command } from './command.ts';

/** Waits for a time. */
export const wait: Command<{ duration?: number; until?: string }> = {
  begin({ clock }, { input: { duration, until } }) {
    const nowMs = clock.now();
    const untilMs = until === undefined ? nowMs + (duration ?? 0) * 1_000 : Date.parse(until);
    if (Number.isNaN(untilMs)) return { kind: 'fail', error: "Param 'until' is not a time" };
    if (untilMs > nowMs + MAX_WAIT_SECONDS * 1_000)
      return { kind: 'fail', error: "Param 'until' must be within the next 400 days" };
    return untilMs <= nowMs ? { kind: 'done' } : { kind: 'wait', untilMs };
  },
};
