import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import WebSocket, { WebSocketServer } from 'ws';
import { serveTask } from '../support/task.ts';

// A server that stores nothing: it writes the title of each broadcast to all of its WebSockets, in a frame as
// long as Belfry's, and then responds. The limit of Node, the loopback and the clients.

serveTask<{ frameBytes: number }>(async ({ frameBytes }) => {
  const server = createServer(async (request, response) => {
    const body = (await buffer(request)).toString();
    const title = /"title":"([^"]*)"/.exec(body)?.[1] ?? '';
    const frame = title.padEnd(frameBytes, ' ');
    for (const client of sockets.clients) if (client.readyState === WebSocket.OPEN) client.send(frame);
    response.writeHead(201, { 'content-length': 0 }).end();
  });
  const sockets = new WebSocketServer({ server, perMessageDeflate: false });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
});
