import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { answer } from '../support/task.ts';

// Vendors that speak HTTP/1.1 and take everything at once: one answer that each of them takes for its own
// success.

const ANSWERS: Record<string, [status: number, body: string]> = {
  '/v3/mail/send': [202, ''],
  '/chat.postMessage': [200, '{"ok":true,"ts":"1782993600.000100"}'],
  '/teams': [202, ''],
};
const SUCCESS: [status: number, body: string] = [
  200,
  '{"MessageId":"1","id":"<1@mg.example.com>","sid":"SM1","message":"Queued. Thank you."}',
];

const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    const [status, body] = ANSWERS[request.url ?? ''] ?? SUCCESS;
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(body);
  });
});

answer(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
});
