import type { Server } from 'node:http';
import type { Logger } from '../lib/log.ts';
import { connectionsRefused } from '../metrics.ts';

const WARN_EVERY_MS = 60_000;

/** Closes each connection beyond `max` at once, WebSockets and streams counted; 0 for no limit. */
export function limitConnections(server: Server, { log, max }: { log: Logger; max: number }): void {
  if (max === 0) return;
  server.maxConnections = max;
  let warnedMs = Number.NEGATIVE_INFINITY;
  server.on('drop', () => {
    connectionsRefused.inc();
    if (performance.now() < warnedMs + WARN_EVERY_MS) return;
    warnedMs = performance.now();
    log.warn({ max }, 'connections are refused: as many are open as MAX_CONNECTIONS permits');
  });
}
