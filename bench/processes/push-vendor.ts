import { createServer } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { serveTask } from '../support/task.ts';

// Stand-ins of APNs, FCM and Expo that accept everything with as little work as possible, so that their cost
// does not hide that of sending.

let accepted = 0; // over HTTP/2

const http2 = createHttp2Server({ settings: { maxConcurrentStreams: 1000 } });
http2.on('stream', (stream, headers) => {
  const isFcm = String(headers[':path']).startsWith('/v1/projects/');
  stream.resume();
  stream.on('error', () => {});
  stream.on('end', () => {
    accepted += 1;
    stream.respond({ ':status': 200, 'apns-id': '0198c0de-0000-7000-8000-000000000000' });
    stream.end(isFcm ? '{"name":"projects/p/messages/1"}' : '');
  });
});

// Batches are not read: each gets the response for a hundred messages. A sender with other batches would
// reject that.
const ticket = { status: 'ok', id: '0198c0de-0000-7000-8000-000000000000' };
const tickets = JSON.stringify({ data: Array(100).fill(ticket) });

const http1 = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    response.setHeader('content-type', 'application/json');
    response.end(request.url === '/token' ? '{"access_token":"t","expires_in":3599}' : tickets);
  });
});

const addresses = Promise.all(
  [http2, http1].map(async (server) => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }),
);

serveTask(async () => {
  const [ofHttp2, ofHttp1] = await addresses;
  return { http2: ofHttp2, http1: ofHttp1, accepted };
});
