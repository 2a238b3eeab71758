import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NewBroadcastSchema } from '../src/contract/broadcast.ts';
import { validatorFor } from '../src/http/validation.ts';
import { startTestServer, type TestServer } from './support/http.ts';

// What somebody tried who wished the service ill. Each test is named after what went wrong then.
let service: TestServer;
beforeAll(async () => {
  service = await startTestServer();
});
afterAll(() => service.close());

const repeated = (text: string, times: number) => Array(times).fill(text).join(',');

describe('bodies that are small on the wire and large in memory', () => {
  test('a million wrong recipients made a million error objects, and took 10 s and 3 GB', () => {
    const validate = validatorFor('body', NewBroadcastSchema);
    expect(validate({ title: 'x', recipients: Array(200_000).fill(0) })).toBe(false);
    expect(validate.errors.length).toBeLessThan(6_000);
    expect(validate.errors[0]).toMatchObject({ keyword: 'maxItems', instancePath: '/recipients' });
    expect(validate({ title: 'x', recipients: [{ external_id: 'a' }] })).toBe(true);
    expect(validate.errors).toEqual([]);
  });

  test('ten million empty arrays became 3 GB when they were parsed', async () => {
    const raw = `{"title":"x","recipients":[${repeated('[]', 1_100_000)}]}`;
    const refused = await service.call('POST', '/v2/broadcasts', { token: service.project.jwt, raw });
    expect(refused.status).toBe(413);
    expect(refused.messages).toEqual(['The request body holds more than 1,000,000 values']);
  });

  test('a content of commas and brackets is one value', async () => {
    const body = { title: 'x', content: ',[{'.repeat(500_000), recipients: [{ external_id: 'a' }] };
    const taken = await service.call('POST', '/v2/broadcasts', { token: service.project.jwt, body });
    expect(taken.status).toBe(201);
  });
});

test('a request that also offers HTTP/2 (Upgrade: h2c), as the first one of Java and of curl --http2, was refused', async () => {
  const asked = request(`${service.base}/v2/users`, {
    headers: {
      authorization: `Bearer ${service.project.jwt}`,
      connection: 'Upgrade, HTTP2-Settings',
      upgrade: 'h2c',
      'http2-settings': 'AAMAAABkAAQAoAAAAAIAAAAA',
    },
  }).end();
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  answer.resume();
  expect(answer.statusCode).toBe(200);
});
