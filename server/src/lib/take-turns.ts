import { setImmediate as nextTurn } from 'node:timers/promises';
import { Limiter } from './limiter.ts';

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

/**
 * Returns a function that does pieces of long work of many callers, one after the other, so that other events
 * have their turn between any two of them.
 */
export function oneInTurn(): <Result>(work: () => Result) => Promise<Result> {
  const one = new Limiter({ maxCount: 1, maxWeight: 1 });
  let beganMs = performance.now();
  return async (work) => {
    // Most work is short, and no other caller waits.
    if (!one.busy && performance.now() - beganMs < LONGEST_TURN_MS) return work();
    return one.run(1, async () => {
      if (performance.now() - beganMs >= LONGEST_TURN_MS) {
        await nextTurn();
        beganMs = performance.now();
      }
      return work();
    });
  };
}
