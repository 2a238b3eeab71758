import { createServer } from 'node:http';
import { serveTask } from '../support/task.ts';

// A server that reads the body and responds with as many bytes as Belfry: the limit of Node, the loopback
// and the sender.

serveTask<{ replyBytes: number }>(async ({ replyBytes }) => {
  const reply = Buffer.alloc(replyBytes, ' ');
  const server = createServer((request, response) => {
    request.on('data', () => {});
    request.on('end', () => {
      response.writeHead(201, { 'content-type': 'application/json', 'content-length': reply.length });
      response.end(reply);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return {
    address: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    pid: process.pid,
  };
});
