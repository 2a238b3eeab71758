/**
 * Aborts on Ctrl-C, SIGTERM, and when the launcher is gone. The launcher and the terminal may both pass on a
 * signal: any number is one.
 */
export function untilStopped(): AbortSignal {
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  process.on('SIGHUP', stop);
  process.on('disconnect', stop);
  process.channel?.unref(); // which the listener for its end had made a reason to stay
  return stopping.signal;
}
