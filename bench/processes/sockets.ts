import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import WebSocket from 'ws';
import { broadcastBody } from '../support/broadcast-body.ts';
import { Connection, requestBytes } from '../support/connection.ts';
import { serveTask } from '../support/task.ts';

// Clients of inboxes: keeps sockets open, sends single broadcasts and waits for their frames.

export type SocketsRequest =
  | { open: { address: string; apiKey: string; tokens: string[] } }
  | { probe: Probe }
  | { burst: Burst };

interface Probe {
  address: string;
  jwt: string;
  externalIds: string[];
  count: number;
  everyMs: number;
  /** The key of a template, instead of texts: a worker then writes the notifications. */
  template?: string;
}

interface Burst {
  address: string;
  jwt: string;
  externalIds: string[];
  broadcasts: number;
  order: BurstOrder;
}

/** All requests at once, or each after the response to the one before, or after all of its frames. */
export type BurstOrder = 'together' | 'after response' | 'after frames';

/** For each frame the time since its request, and for all of them since the first. */
export interface BurstTimes {
  frameMs: number[];
  totalMs: number;
}

/** For each frame the time since its request, and since the response to it. */
export interface ProbeTimes {
  fromRequestMs: number[];
  fromResponseMs: number[];
}

// Opened together: a storm of handshakes is not measured.
const AT_A_TIME = 50;

const sockets: WebSocket[] = [];

serveTask<SocketsRequest>((request) => {
  if ('open' in request) return open(request.open);
  return 'probe' in request ? probe(request.probe) : burst(request.burst);
});

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

const TITLE = 'Your order is on its way';

/** Sends broadcasts to all users, and waits for all of their frames. */
async function burst(options: Burst): Promise<BurstTimes> {
  const { address, jwt, externalIds, broadcasts, order } = options;
  const body = broadcastBody(externalIds);
  const frameMs: number[] = [];
  const sentMs: number[] = [];
  const frames: number[] = Array(broadcasts).fill(0);
  const delivered = frames.map(() => Promise.withResolvers<void>());
  const onMessage = (data: Buffer) => {
    const at = data.indexOf(' #');
    const index = Number(data.toString('latin1', at + 2, at + 5));
    frameMs.push(performance.now() - (sentMs[index] ?? 0));
    frames[index] = (frames[index] ?? 0) + 1;
    if (frames[index] === sockets.length) delivered[index]?.resolve();
  };
  for (const socket of sockets) socket.on('message', onMessage);
  const connections = Array.from({ length: broadcasts }, () => new Connection(address));
  const requests = connections.map((_, index) => {
    const title = `${TITLE} #${String(index).padStart(3, '0')}`;
    return requestBytes({ method: 'POST', path: '/v2/broadcasts', jwt, body: body.replace(TITLE, title) });
  });
  const startedMs = performance.now();
  const send = async (connection: Connection, index: number): Promise<void> => {
    sentMs[index] = performance.now();
    const status = await connection.send(requests[index] as Buffer);
    if (status !== 201) throw new Error(`the response to a broadcast was ${status}`);
  };
  if (order === 'together') await Promise.all(connections.map(send));
  else
    for (const [index, connection] of connections.entries()) {
      await send(connection, index);
      if (order === 'after frames') await delivered[index]?.promise;
    }
  await Promise.all(delivered.map(({ promise }) => promise));
  const totalMs = performance.now() - startedMs;
  for (const connection of connections) connection.close();
  for (const socket of sockets) socket.off('message', onMessage);
  return { frameMs, totalMs };
}

/**
 * Sends a broadcast to each user in turn and waits for its frame; socket number i belongs to
 * externalIds[i].
 */
async function probe(options: Probe): Promise<ProbeTimes> {
  const { address, jwt, externalIds, count, everyMs, template: key } = options;
  const connection = new Connection(address);
  const requests = externalIds.map((id) => {
    const templated = { template: { key }, recipients: [{ external_id: id }] };
    const body = key === undefined ? broadcastBody([id]) : JSON.stringify(templated);
    return requestBytes({ method: 'POST', path: '/v2/broadcasts', jwt, body });
  });
  const result: ProbeTimes = { fromRequestMs: [], fromResponseMs: [] };
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
