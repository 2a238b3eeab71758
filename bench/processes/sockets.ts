import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import WebSocket from 'ws';
import { broadcastBody } from '../support/broadcast-body.ts';
import { Connection, requestBytes } from '../support/connection.ts';
import { serveTask } from '../support/task.ts';

// Clients of inboxes: keeps sockets open, sends single broadcasts and waits for their frames.

type Request =
  | { open: { address: string; apiKey: string; tokens: string[] } }
  | { probe: { address: string; jwt: string; externalIds: string[]; count: number; everyMs: number } };

// Opened together: a storm of handshakes is not measured.
const AT_A_TIME = 50;

const sockets: WebSocket[] = [];

serveTask<Request>((request) => ('open' in request ? open(request.open) : probe(request.probe)));

async function open({
  address,
  apiKey,
  tokens,
}: {
  address: string;
  apiKey: string;
  tokens: string[];
}): Promise<number> {
  for (let from = 0; from < tokens.length; from += AT_A_TIME) {
    await Promise.all(
      tokens.slice(from, from + AT_A_TIME).map(async (token) => {
        const url = `${address.replace('http', 'ws')}/?api_key=${apiKey}&token=${encodeURIComponent(token)}`;
        const socket = new WebSocket(url, { perMessageDeflate: false });
        sockets.push(socket);
        await once(socket, 'open');
      }),
    );
  }
  return sockets.length;
}

/**
 * Sends a broadcast to each user in turn and waits for its frame; socket number i belongs to
 * externalIds[i].
 */
async function probe(options: {
  address: string;
  jwt: string;
  externalIds: string[];
  count: number;
  everyMs: number;
}): Promise<{
  fromRequestMs: number[];
  fromResponseMs: number[];
}> {
  const { address, jwt, externalIds, count, everyMs } = options;
  const connection = new Connection(address);
  const requests = externalIds.map((id) =>
    requestBytes({ method: 'POST', path: '/v2/broadcasts', jwt, body: broadcastBody([id]) }),
  );
  const result = { fromRequestMs: [] as number[], fromResponseMs: [] as number[] };
  for (let index = 0; index < count; index += 1) {
    const place = index % requests.length;
    const socket = sockets[place] as WebSocket;
    const arrived = once(socket, 'message').then(() => performance.now());
    const sentMs = performance.now();
    const status = await connection.send(requests[place] as Buffer);
    const respondedMs = performance.now();
    if (status !== 201) throw new Error(`the response to a broadcast was ${status}`);
    const arrivedMs = await arrived;
    result.fromRequestMs.push(arrivedMs - sentMs);
    result.fromResponseMs.push(arrivedMs - respondedMs);
    await delay(everyMs);
  }
  connection.close();
  return result;
}
