import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { type WebSocket, WebSocketServer } from 'ws';

/** The push service of Firefox. https://mozilla-push-service.readthedocs.io/en/latest/http/ */
export interface MozillaPushStandIn {
  /** The value of `dom.push.serverURL`. */
  url: string;
  /** The endpoints of the subscriptions that exist. */
  endpoints(): string[];
  /** What the browsers have confirmed: their channels. */
  readonly acknowledged: string[];
  /** Ends all subscriptions: pushes get a 410, and the browsers subscribe again. */
  expireAll(): void;
  stop(): Promise<void>;
}

/** What browsers send. */
type Message =
  | { messageType: 'hello' }
  | { messageType: 'register' | 'unregister'; channelID: string }
  | { messageType: 'ack'; updates: { channelID: string }[] };

export async function startMozillaPushStandIn(): Promise<MozillaPushStandIn> {
  /** The connection of each subscription, by the id of its channel. */
  const channels = new Map<string, WebSocket>();
  const acknowledged: string[] = [];
  const server = createServer(async (request, response) => {
    const channelID = request.url?.replace('/push/', '') ?? '';
    const data = (await buffer(request)).toString('base64url');
    const socket = channels.get(channelID);
    if (socket === undefined) return void response.writeHead(410).end();
    const headers = { encoding: request.headers['content-encoding'] };
    const version = randomUUID();
    socket.send(JSON.stringify({ messageType: 'notification', channelID, version, ttl: 60, data, headers }));
    response.writeHead(201, { location: `${address}/message/${version}` }).end();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const sockets = new WebSocketServer({ server, handleProtocols: () => 'push-notification' });
  sockets.on('connection', (socket) => {
    const reply = (message: object) => socket.send(JSON.stringify(message));
    socket.on('message', (text) => {
      const message = JSON.parse(String(text)) as Message;
      switch (message.messageType) {
        case 'hello':
          reply({ messageType: 'hello', uaid: randomUUID(), status: 200, use_webpush: true, broadcasts: {} });
          break;
        case 'register': {
          const { channelID } = message;
          channels.set(channelID, socket);
          reply({
            messageType: 'register',
            channelID,
            status: 200,
            pushEndpoint: `${address}/push/${channelID}`,
          });
          break;
        }
        case 'unregister':
          channels.delete(message.channelID);
          reply({ messageType: 'unregister', channelID: message.channelID, status: 200 });
          break;
        case 'ack':
          acknowledged.push(...message.updates.map(({ channelID }) => channelID));
          break;
        default: // a broadcast subscription, or an empty ping
          if (Object.keys(message).length === 0) reply({});
      }
    });
  });
  return {
    url: address.replace('http', 'ws'),
    endpoints: () => [...channels.keys()].map((channelID) => `${address}/push/${channelID}`),
    acknowledged,
    expireAll() {
      channels.clear();
      for (const socket of sockets.clients) socket.terminate();
    },
    async stop() {
      for (const socket of sockets.clients) socket.terminate();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
