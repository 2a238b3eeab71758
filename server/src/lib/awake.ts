const LOOK_EVERY_MS = 250;
// If more time passes between two looks, the process was stopped or its event loop blocked.
const BLOCKED_MS = 500;

let awake = 0;
let lookedAt: number | undefined;

/**
 * Milliseconds for which this process has run since the first call. They do not advance while the process is
 * stopped, its machine is suspended or its event loop is blocked: a peer may have responded meanwhile.
 */
export function awakeMs(): number {
  const now = performance.now();
  if (lookedAt === undefined) setInterval(awakeMs, LOOK_EVERY_MS).unref();
  const passedMs = now - (lookedAt ?? now);
  // The time is negative only in tests that replace the clock.
  if (passedMs > 0 && passedMs < BLOCKED_MS) awake += passedMs;
  lookedAt = now;
  return awake;
}

/**
 * Calls `late` when the process has run for `ms`, unless the returned function was called before. For time
 * limits of peers: what a peer has sent while the process was stopped is read first.
 */
export function afterAwake(ms: number, late: () => void): () => void {
  const endsAt = awakeMs() + ms;
  let ended = false;
  let timer = setTimeout(check, ms);
  function check() {
    const restMs = endsAt - awakeMs();
    if (restMs > 0) timer = setTimeout(check, restMs);
    // `setImmediate` runs after the sockets are read, timers before.
    else setImmediate(() => ended || late());
  }
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}
