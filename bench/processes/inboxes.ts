import { randomUUID } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Connection, requestBytes } from '../support/connection.ts';
import { serveTask } from '../support/task.ts';

// Browsers that open the inbox of their user at the same time: what `<belfry-inbox>` requests.

interface Request {
  address: string;
  /** A User JWT for each inbox. */
  jwts: string[];
  /** How many are opening at any time; the next one begins when one is complete. */
  atOnce: number;
}

export interface Openings {
  /** From the start of an inbox until its stream is ready and it has all of `REQUESTS`. */
  openMs: number[];
  /** The times of the requests alone, without that of the stream. */
  requestMs: number[];
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
  const requestMs: number[] = [];
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
        await Promise.all([
          retried(() => openStream(address, jwt)),
          retried(() => load(address, jwt, requestMs)),
        ]);
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
  return { openMs, requestMs, retries, failures, seconds, cpuMs: (user + system) / 1_000 };
}

// As the client of the inbox does at least.
const RETRY_MS = 1_000;

/** The server is overloaded, and said so. */
class Rejected extends Error {}

const PING = 0x89;
const MASKED_PONG = Buffer.from([0x8a, 0x80, 0, 0, 0, 0]);

/**
 * Resolves when the stream is ready. It stays open until this process ends. Without a library, because its
 * handshake takes as much CPU time as the server's.
 */
function openStream(address: string, jwt: string): Promise<void> {
  const { hostname, port } = new URL(address);
  const socket: Socket = connect({ host: hostname, port: Number(port), noDelay: true });
  socket.write(
    'GET /v2/notifications/stream HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\n' +
      'upgrade: websocket\r\n' +
      'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n' +
      `sec-websocket-protocol: belfry.v1, belfry.jwt.${jwt}\r\n\r\n`,
  );
  return new Promise((resolve, reject) => {
    let received = '';
    let isAccepted = false;
    let isReady = false;
    socket.on('data', (bytes) => {
      if (isReady) {
        if (bytes.includes(PING)) socket.write(MASKED_PONG);
        return;
      }
      received += bytes.toString('latin1');
      const end = received.indexOf('\r\n\r\n');
      if (end < 0) return;
      if (received.startsWith('HTTP/1.1 503') && /\r\nretry-after: /i.test(received)) reject(new Rejected());
      else if (!received.startsWith('HTTP/1.1 101')) reject(new Error(`stream: ${received.slice(9, 12)}`));
      else isAccepted = true;
      isReady = received.includes('"event":"ready"');
      if (!isReady) return;
      received = '';
      resolve();
    });
    socket.on('error', (error) => reject(new Error(`stream: ${error.message}`)));
    // The client connects again when the server closes a stream.
    socket.on('close', () => reject(isAccepted ? new Rejected() : new Error('stream: closed')));
  });
}

const REQUESTS = [
  ['GET', '/v2/notifications?limit=50'],
  ['GET', '/v2/channels/user_preferences'],
  ['GET', '/v2/notifications/unread/count'],
  ['GET', '/v2/notifications/unseen/count'],
  ['POST', '/v2/integrations/inbox/installations/start'],
] as const;

/** Sends the requests over a connection of the user's own. */
async function load(address: string, jwt: string, requestMs: number[]): Promise<void> {
  const connection = new Connection(address);
  try {
    for (const [method, path] of REQUESTS) {
      const sentMs = performance.now();
      // As the client does with every POST.
      const key = method === 'POST' ? { idempotencyKey: randomUUID() } : {};
      const status = await connection.send(requestBytes({ method, path, jwt, ...key }));
      requestMs.push(performance.now() - sentMs);
      if (status === 503) throw new Rejected();
      if (status !== 200) throw new Error(`${method} ${path}: ${status}`);
    }
  } catch (error) {
    if (error instanceof Rejected) throw error;
    throw new Error(`request: ${(error as Error).message}`, { cause: error });
  } finally {
    connection.close();
  }
}
