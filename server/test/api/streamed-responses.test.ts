import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { sendParts } from '../../src/http/reply.ts';
import { startTestService, type TestService } from '../support/service.ts';

// Responses that are sent part by part, such as exports.

const PART = 'x'.repeat(256 * 1024);
const PARTS = 256;
// What the kernel buffers of a connection, and the parts that are between it and the generator.
const AHEAD = 40;

let service: TestService;
let made = 0;
let ended = Promise.withResolvers<void>();

async function* parts(): AsyncGenerator<string> {
  try {
    for (; made < PARTS; made += 1) yield PART;
  } finally {
    ended.resolve();
  }
}

beforeAll(async () => {
  service = await startTestService({
    http: {
      routes({ fastify }) {
        for (const [url, stalledMs] of [
          ['/parts', 60_000],
          ['/parts-at-once', 100],
        ] as const)
          fastify.get(url, async (_request, reply) => {
            await sendParts(reply, 'text/plain', parts(), { stalledMs });
            return reply;
          });
      },
    },
  });
});
afterAll(() => service?.stop());
beforeEach(() => {
  made = 0;
  ended = Promise.withResolvers();
});

/** Sends a request, and reads nothing of the response. */
function open(path: string): Socket {
  const { hostname, port } = new URL(service.address);
  const socket = connect(Number(port), hostname).pause();
  socket.on('error', () => {}); // the server disconnects it
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`);
  return socket;
}

test('parts are made as fast as the client reads them', async () => {
  const response = await fetch(`${service.address}/parts`);
  let received = 0;
  let ahead = 0;
  for await (const chunk of response.body ?? []) {
    received += chunk.length;
    ahead = Math.max(ahead, made - received / PART.length);
  }
  expect(received).toBe(PARTS * PART.length);
  expect(ahead).toBeLessThan(AHEAD);
});

test('a client that disconnects ends them', async () => {
  const socket = open('/parts');
  await expect.poll(() => made).toBeGreaterThan(0);
  socket.destroy();
  await ended.promise;
  expect(made).toBeLessThan(AHEAD);
});

test('a client that reads nothing is disconnected', async () => {
  const socket = open('/parts-at-once');
  await ended.promise;
  socket.destroy();
  expect(made).toBeLessThan(AHEAD);
});

test('a response to HEAD makes none', async () => {
  const response = await fetch(`${service.address}/parts`, { method: 'HEAD' });
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/plain']);
  expect(made).toBe(0);
});
