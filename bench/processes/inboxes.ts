import { once } from 'node:events';
import WebSocket from 'ws';
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
  /** From the start of an inbox until it has its list, its counts and its theme, and its stream is ready. */
  openMs: number[];
  /** The times of the requests alone, without that of the stream. */
  requestMs: number[];
  seconds: number;
}

serveTask<Request>(openAll);

async function openAll({ address, jwts, atOnce }: Request): Promise<Openings> {
  const openMs: number[] = [];
  const requestMs: number[] = [];
  const startedMs = performance.now();
  const waiting = jwts.values();
  const worker = async () => {
    for (const jwt of waiting) {
      const beganMs = performance.now();
      await Promise.all([openStream(address, jwt), load(address, jwt, requestMs)]);
      openMs.push(performance.now() - beganMs);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return { openMs, requestMs, seconds: (performance.now() - startedMs) / 1_000 };
}

/** Resolves when the stream is ready. It stays open until this process ends. */
async function openStream(address: string, jwt: string): Promise<void> {
  const url = `${address.replace('http', 'ws')}/v2/notifications/stream`;
  const socket = new WebSocket(url, ['belfry.v1', `belfry.jwt.${jwt}`], { perMessageDeflate: false });
  await once(socket, 'message');
}

const REQUESTS = [
  ['GET', '/v2/notifications?limit=50'],
  ['GET', '/v2/notifications/unread/count'],
  ['POST', '/v2/integrations/inbox/installations/start'],
] as const;

/** Sends the requests over a connection of the user's own. */
async function load(address: string, jwt: string, requestMs: number[]): Promise<void> {
  const connection = new Connection(address);
  for (const [method, path] of REQUESTS) {
    const sentMs = performance.now();
    const status = await connection.send(requestBytes({ method, path, jwt }));
    requestMs.push(performance.now() - sentMs);
    if (status !== 200) throw new Error(`${method} ${path} returned ${status}`);
  }
  connection.close();
}
