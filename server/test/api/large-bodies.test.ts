import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { processed, until } from '../support/service.ts';
import { type MeasuredServer, startMeasuredServer } from '../support/start-measured-server.ts';

// `npm run bench -- --only bodies` does the same with a thousand broadcasts over 128 connections.
const HEAP_MB = 160;
const BROADCASTS = 32;

let server: MeasuredServer;
beforeAll(async () => {
  server = await startMeasuredServer([`--max-old-space-size=${HEAP_MB}`]);
});
afterAll(() => server.stop());

const body = Buffer.from(
  JSON.stringify({
    title: 'Large',
    content: '<p>a "b" 😀</p>'.repeat(480_000),
    recipients: [{ external_id: 'a' }],
  }),
);

function begin(jwt: string, bytes: number): ClientRequest {
  return request(`${server.address}/v2/broadcasts`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${jwt}`,
      'content-type': 'application/json',
      'content-length': bytes,
    },
  });
}

async function post(
  jwt: string,
  sentBody = body,
): Promise<{ status: number; retryAfter: string | undefined }> {
  const sent = begin(jwt, sentBody.length);
  sent.end(sentBody);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.resume();
  await once(response, 'end');
  return { status: response.statusCode ?? 0, retryAfter: response.headers['retry-after'] };
}

test('broadcasts of 10 MiB, together larger than the heap, do not stop the server', async () => {
  const [first, second, third] = server.projects;
  if (first === undefined || second === undefined || third === undefined) throw new Error('no projects');
  let done = false;
  const sending = Promise.all(
    Array.from({ length: BROADCASTS }, (_, index) => post((index % 2 === 0 ? first : second).jwt)),
  ).finally(() => {
    done = true;
  });
  // The server serves another client meanwhile.
  const small = { title: 'Small', recipients: [{ external_id: 'a' }] };
  while (!done) expect((await third.call('POST', '/broadcasts', small)).status).toBe(201);
  const responses = await sending;
  expect(responses.filter(({ status }) => status === 201)).not.toEqual([]);
  for (const { status, retryAfter } of responses) {
    if (status === 201) continue;
    expect([429, 503]).toContain(status);
    expect(retryAfter).toBe('1');
  }
  // A retry of the rejected ones succeeds when the others have ended.
  await until(
    () => post(first.jwt),
    ({ status }) => status === 201,
    { everyMs: 100 },
  );
});

test('a broadcast of 10 MiB to a thousand users is in all of their inboxes', async () => {
  const [, , third] = server.projects;
  if (third === undefined) throw new Error('no project');
  const large = JSON.parse(body.toString());
  const recipients = Array.from({ length: 1_000 }, (_, index) => ({ external_id: `user-${index}` }));
  // It may have to wait for those of the test before.
  const { body: sent } = await until(
    () => third.call('POST', '/broadcasts', { ...large, recipients }),
    ({ status }) => status === 201,
    { everyMs: 100 },
  );
  const { status } = await processed(third.call, sent.id);
  expect(status.summary).toEqual({ total: 1_000, failures: 0, pending: 0 });
  for (const user of ['user-0', 'user-999']) {
    const inbox = await third.as(user)('GET', '/notifications');
    expect(inbox.body.data).toHaveLength(1);
    expect(inbox.body.data[0].content === large.content).toBe(true);
  }
});

test('a text too large for the heap is rejected, and the next broadcast is accepted', async () => {
  const [, , third] = server.projects;
  if (third === undefined) throw new Error('no project');
  const text = Buffer.concat([
    Buffer.from('{"title":"Large","recipients":[{"external_id":"a"}],"content":"€'),
    Buffer.alloc(HEAP_MB * 2 ** 17, 'x'), // because of the €, each character takes two bytes
    Buffer.from('"}'),
  ]);
  expect(await post(third.jwt, text)).toMatchObject({ status: 422 });
  const tooLong = begin(third.jwt, HEAP_MB * 2 ** 19);
  tooLong.flushHeaders(); // it is rejected before the body arrives
  const [{ statusCode }] = (await once(tooLong, 'response')) as [IncomingMessage];
  expect(statusCode).toBe(413);
  tooLong.on('error', () => {}).destroy();
  expect(await post(third.jwt)).toMatchObject({ status: 201 });
});
