import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serveTask } from '../support/task.ts';

// Stand-ins of vendors with HTTP/1.1 that accept everything: one response that each client reads as success.

const RESPONSES: Record<string, [status: number, body: string]> = {
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
    const [status, body] = RESPONSES[request.url ?? ''] ?? SUCCESS;
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(body);
  });
});

serveTask(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
});
