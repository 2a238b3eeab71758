import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { Type } from 'typebox';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type App, projectRoute } from '../../src/http/route.ts';
import { type ApiResponse, startTestService, type TestService } from '../support/service.ts';

const KIBI = 1024;
const gate = { entered: Promise.withResolvers<void>(), open: Promise.withResolvers<void>() };

/** A route that does not respond until its gate is open. */
function heldRoute(app: App): void {
  projectRoute(app, {
    method: 'PUT',
    url: '/held',
    operationId: 'hold',
    summary: 'Hold',
    description: 'For this test.',
    tags: ['Test'],
    body: Type.Object({ text: Type.String() }),
    bodyLimit: 4 * KIBI * KIBI,
    reply: { 204: Type.Null() },
    async handler() {
      gate.entered.resolve();
      await gate.open.promise;
    },
  });
}

let it: TestService;
let other: string;
let third: string;
beforeAll(async () => {
  // 1 MiB for bodies of more than 64 KiB, half of it for one credential; 512 KiB for the others.
  it = await startTestService({ settings: { REQUEST_BODIES_MIB: '1' }, http: { routes: heldRoute } });
  other = (await it.createProject('other')).jwt;
  third = (await it.createProject('third')).jwt;
});
afterAll(() => it.stop());
beforeEach(() => {
  gate.entered = Promise.withResolvers();
  gate.open = Promise.withResolvers();
});
afterEach(() => gate.open.resolve());

const bodyOf = (bytes: number) => JSON.stringify({ text: 'x'.repeat(bytes - 11) });

/** Sends requests to that route. Resolves when its handler has all of them. */
async function hold(...of: [bytes: number, token: string][]): Promise<{ responses: Promise<number[]> }> {
  const sent: Promise<ApiResponse>[] = [];
  for (const [bytes, token] of of) {
    gate.entered = Promise.withResolvers();
    sent.push(it.request('PUT', '/v2/held', { token, raw: bodyOf(bytes) }));
    await gate.entered.promise;
  }
  return { responses: Promise.all(sent).then((responses) => responses.map(({ status }) => status)) };
}

const tryOne = (bytes: number, token: string) => it.request('PUT', '/v2/held', { token, raw: bodyOf(bytes) });

const READ = 'read';
/** Resolves with the response of `send`, or with `READ` if the request reaches the handler. */
function unlessRead<Response>(send: () => Promise<Response>): Promise<Response | typeof READ> {
  gate.entered = Promise.withResolvers();
  return Promise.race([gate.entered.promise.then(() => READ as typeof READ), send()]);
}
const refusal = (bytes: number, token: string) =>
  unlessRead(async () => {
    const { status, codes, headers } = await tryOne(bytes, token);
    return { status, codes, retryAfter: headers.get('retry-after') };
  });

/** Starts a request and sends only a part of its body. */
function begun(
  headers: Record<string, string | number>,
  part: string | Buffer,
  token: string,
): ClientRequest {
  const sent = request(`${it.address}/v2/held`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
  });
  sent.on('error', () => {}); // the connection is broken below
  sent.write(part);
  return sent;
}

describe('the memory for request bodies', () => {
  const RETRY = { status: 503, codes: ['service_unavailable'], retryAfter: '1' };

  test('one credential gets half of it: more is a 429 with Retry-After until a request ends', async () => {
    const { responses } = await hold([400 * KIBI, it.project.jwt]);
    const tooMany = { status: 429, codes: ['rate_limit_exceeded'], retryAfter: '1' };
    expect(await refusal(200 * KIBI, it.project.jwt)).toEqual(tooMany);
    gate.open.resolve();
    expect(await responses).toEqual([204]);
    expect((await tryOne(400 * KIBI, it.project.jwt)).status).toBe(204);
  });

  test('all credentials together get no more than all of it: more is a 503 with Retry-After', async () => {
    const { responses } = await hold([400 * KIBI, it.project.jwt], [400 * KIBI, other]);
    expect(await refusal(300 * KIBI, third)).toEqual(RETRY);
    gate.open.resolve();
    expect(await responses).toEqual([204, 204]);
  });

  test('a small body needs none of it', async () => {
    const { responses } = await hold([500 * KIBI, it.project.jwt], [500 * KIBI, other], [60 * KIBI, third]);
    gate.open.resolve();
    expect(await responses).toEqual([204, 204, 204]);
  });

  test('a body of any size is read if no other is', async () => {
    gate.open.resolve();
    for (const bytes of [1024 * KIBI, 3000 * KIBI])
      expect((await tryOne(bytes, it.project.jwt)).status).toBe(204);
  });

  test('a body with a length reserves it before it arrives, until the connection breaks', async () => {
    gate.open.resolve();
    const slow = begun({ 'content-length': 1000 * KIBI }, '{"text":"', it.project.jwt);
    const status = async () => (await tryOne(200 * KIBI, other)).status;
    await expect.poll(status).toBe(503);
    slow.destroy();
    await expect.poll(status).toBe(204);
  });

  test('a body without a length reserves it while it grows', async () => {
    const { responses } = await hold([400 * KIBI, it.project.jwt]);
    const part = `{"text":"${'x'.repeat(300 * KIBI)}`;
    const grown = begun({ 'transfer-encoding': 'chunked' }, part, it.project.jwt);
    const responded = once(grown, 'response') as Promise<[IncomingMessage]>;
    const status = await unlessRead(async () => {
      grown.end('"}');
      return (await responded)[0].statusCode;
    });
    expect(status).toBe(429);
    gate.open.resolve();
    expect(await responses).toEqual([204]);
  });

  test('is released when the handler of a closed connection ends, not before', async () => {
    const gone = begun({ 'content-length': 1000 * KIBI }, bodyOf(1000 * KIBI), it.project.jwt);
    await gate.entered.promise;
    const closed = new Promise((resolve) => gone.once('close', resolve));
    gone.destroy();
    await closed;
    expect(await refusal(200 * KIBI, other)).toEqual(RETRY);
    gate.open.resolve();
    await expect.poll(async () => (await tryOne(200 * KIBI, other)).status).toBe(204);
  });

  test('is released when a connection with pipelined requests breaks', async () => {
    const body = bodyOf(200 * KIBI);
    const head =
      `PUT /v2/held HTTP/1.1\r\nHost: belfry.example\r\nAuthorization: Bearer ${it.project.jwt}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    const { hostname, port } = new URL(it.address);
    const socket = connect(Number(port), hostname);
    socket.write(head + body);
    await gate.entered.promise;
    gate.entered = Promise.withResolvers();
    socket.write(head + body); // its response follows that of the first
    await gate.entered.promise;
    socket.write(head + body.slice(0, 100 * KIBI));
    await expect.poll(() => refusal(700 * KIBI, other)).toMatchObject({ status: 503 });
    socket.destroy();
    gate.open.resolve();
    await expect.poll(async () => (await tryOne(1024 * KIBI, other)).status).toBe(204);
  });
});
