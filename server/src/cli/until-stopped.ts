/** Aborts on Ctrl-C, SIGTERM, and when the launcher ends. Repeated signals count once. */
export function untilStopped(): AbortSignal {
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  process.on('SIGHUP', stop);
  process.on('disconnect', stop);
  process.channel?.unref(); // the listener above would keep the process alive
  return stopping.signal;
}
