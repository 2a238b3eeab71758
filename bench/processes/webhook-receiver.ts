import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { answer } from '../support/task.ts';

// Receivers of webhooks on one port: each accepts everything at once and counts it, but for those below
// /hang, which never respond.

let received = 0;
const server = createServer((request, response) => {
  request.resume();
  if (request.url?.startsWith('/hang')) return;
  request.on('end', () => {
    received += 1;
    response.writeHead(204).end();
  });
});

answer(async () => {
  if (!server.listening) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
});
