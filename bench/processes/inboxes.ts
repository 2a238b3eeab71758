import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { serveTask } from '../support/task.ts';

// Browsers that open the inbox of their user at the same time, with the one request of `<belfry-inbox>`.

interface Request {
  address: string;
  /** A User JWT for each inbox. */
  jwts: string[];
  /** How many are opening at any time; the next one begins when one is complete. */
  atOnce: number;
}

export interface Openings {
  /** From the start of an inbox until its stream is ready and it has its state. */
  openMs: number[];
  /** Attempts that got a 503 with `Retry-After`, or whose stream the server closed. */
  retries: number;
  /** What else went wrong, and how often. Such an inbox did not open. */
  failures: Record<string, number>;
  seconds: number;
  /** CPU time of this process. */
  cpuMs: number;
}

serveTask<Request>(openAll);

async function openAll({ address, jwts, atOnce }: Request): Promise<Openings> {
  const openMs: number[] = [];
  const failures: Record<string, number> = {};
  let retries = 0;
  const cpuBefore = process.cpuUsage();
  const startedMs = performance.now();
  const waiting = jwts.values();
  const worker = async () => {
    for (const jwt of waiting) {
      const beganMs = performance.now();
      const retried = async (attempt: () => Promise<void>): Promise<void> => {
        try {
          await attempt();
        } catch (error) {
          if (!(error instanceof Rejected)) throw error;
          retries += 1;
          await delay(RETRY_MS * (0.5 + Math.random()));
          await retried(attempt);
        }
      };
      try {
        await retried(() => openStream(address, jwt));
        openMs.push(performance.now() - beganMs);
      } catch (error) {
        const { message } = error as Error;
        failures[message] = (failures[message] ?? 0) + 1;
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  const { user, system } = process.cpuUsage(cpuBefore);
  const seconds = (performance.now() - startedMs) / 1_000;
  return { openMs, retries, failures, seconds, cpuMs: (user + system) / 1_000 };
}

// As the client of the inbox does at least.
const RETRY_MS = 1_000;

/** The server is overloaded, and said so. */
class Rejected extends Error {}

const PING = 0x89;
const SHORTER_THAN_READY = 100;
const MASKED_PONG = Buffer.from([0x8a, 0x80, 0, 0, 0, 0]);

/**
 * Resolves when the stream is ready and has sent the state of the inbox. It stays open until this process
 * ends. Without a library, because its handshake takes as much CPU time as the server's.
 */
function openStream(address: string, jwt: string): Promise<void> {
  const { hostname, port } = new URL(address);
  const socket: Socket = connect({ host: hostname, port: Number(port), noDelay: true });
  socket.write(
    'GET /v2/notifications/stream?snapshot=50 HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\n' +
      'upgrade: websocket\r\n' +
      'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n' +
      `sec-websocket-protocol: belfry.v1, belfry.jwt.${jwt}\r\n\r\n`,
  );
  return new Promise((resolve, reject) => {
    let received: Buffer = Buffer.alloc(0);
    let isAccepted = false;
    let isReady = false;
    socket.on('data', (bytes) => {
      if (isReady) {
        if (bytes.includes(PING)) socket.write(MASKED_PONG);
        return;
      }
      received = received.length === 0 ? bytes : Buffer.concat([received, bytes]);
      if (!isAccepted) {
        const end = received.indexOf('\r\n\r\n');
        if (end < 0) return;
        const head = received.toString('latin1', 0, end + 2);
        if (head.startsWith('HTTP/1.1 503') && /\r\nretry-after: /i.test(head)) reject(new Rejected());
        else if (!head.startsWith('HTTP/1.1 101')) reject(new Error(`stream: ${head.slice(9, 12)}`));
        else isAccepted = true;
        received = received.subarray(end + 4);
      }
      let message = isAccepted ? firstMessage(received) : undefined;
      // A server that has much to do sends heartbeats and pings before.
      while (message !== undefined && message.length < SHORTER_THAN_READY) {
        if (received[0] === PING) socket.write(MASKED_PONG);
        received = received.subarray(2 + message.length);
        message = firstMessage(received);
      }
      if (message === undefined) return;
      isReady = true;
      received = Buffer.alloc(0);
      const { event, data } = JSON.parse(message);
      if (event === 'ready' && data.notifications.length > 0 && data.counts.unread > 0) resolve();
      else reject(new Error(`stream: ${message.slice(0, 100)}`));
    });
    socket.on('error', (error) => reject(new Error(`stream: ${error.message}`)));
    // The client connects again when the server closes a stream.
    socket.on('close', () => reject(isAccepted ? new Rejected() : new Error('stream: closed')));
  });
}

/** The text of the first message, once all of it has arrived. Servers mask nothing (RFC 6455). */
function firstMessage(bytes: Buffer): string | undefined {
  const short = (bytes[1] ?? 0) & 0x7f;
  const from = short === 127 ? 10 : short === 126 ? 4 : 2;
  if (bytes.length < from) return undefined;
  const length = short === 127 ? bytes.readUInt32BE(6) : short === 126 ? bytes.readUInt16BE(2) : short;
  return bytes.length < from + length ? undefined : bytes.toString('utf8', from, from + length);
}
