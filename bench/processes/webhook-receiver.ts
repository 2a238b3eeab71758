import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serveTask } from '../support/task.ts';

// Receivers of webhooks on one port: each accepts and counts everything, except those below /hang, which
// never respond.

let received = 0;
const server = createServer((request, response) => {
  request.resume();
  if (request.url?.startsWith('/hang')) return;
  request.on('end', () => {
    received += 1;
    response.writeHead(204).end();
  });
});

serveTask(async () => {
  if (!server.listening) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
});
