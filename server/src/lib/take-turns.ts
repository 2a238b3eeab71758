import { setImmediate as nextTurn } from 'node:timers/promises';

// After this long other work has its turn.
const LONGEST_TURN_MS = 10;

/**
 * Returns a function to call between the parts of long work: it resolves when the work may continue, after
 * other events were handled if the current turn of the event loop has taken 10 ms.
 */
export function takeTurns(): () => Promise<void> {
  let beganMs = performance.now();
  return async () => {
    if (performance.now() - beganMs < LONGEST_TURN_MS) return;
    await nextTurn();
    beganMs = performance.now();
  };
}
