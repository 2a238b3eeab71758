/**
 * Returns a function that does the work, one run at a time. A call during a run makes it run once more after
 * that, so no change is left that the run did not see. Resolves when no run is left. If a run fails, so do
 * all calls that wait, and the next call starts again.
 */
export function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let isWanted = false;
  const run = async () => {
    try {
      while (isWanted) {
        isWanted = false;
        await work();
      }
    } finally {
      running = undefined;
    }
  };
  return () => {
    isWanted = true;
    running ??= run();
    return running;
  };
}
