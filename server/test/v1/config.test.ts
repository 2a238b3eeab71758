import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestService, type TestService } from '../support/service.ts';

let service: TestService;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

const config = async () => (await service.project.v1As('ada')('GET', '/config')).body;

test('the config has what the inbox reads; web push is enabled with its integration', async () => {
  const { body: user } = await service.project.call('PUT', '/users', { external_id: 'ada' });
  const on = { enabled: true };
  const rest = {
    ws: { channel: user.id },
    inbox: { features: { notification_preferences: on, no_service_branding: on } },
  };
  expect(await config()).toEqual({ ...rest, channels: { web_push: { enabled: false, config: {} } } });
  const started = await service.project.as('ada')('POST', '/integrations/web_push/installations/start');
  expect(await config()).toEqual({
    ...rest,
    channels: {
      web_push: {
        enabled: true,
        config: {
          subscribe_url: expect.stringContaining(`${service.address}/push/subscribe#`),
          vapid_authentication: { public_key: started.body.public_key },
        },
      },
    },
  });
});

test('the fragment of the address authenticates the user on the page', async () => {
  const { channels } = await config();
  const url = new URL(channels.web_push.config.subscribe_url);
  const headers = { authorization: `Bearer ${url.hash.slice(1)}` };
  const start = await service.request('POST', '/integrations/web_push/installations/start', { headers });
  expect(start.body.web_push.public_key).toBe(channels.web_push.config.vapid_authentication.public_key);
  const keys = { auth: 'tBHItJI5svbpez7KI4CCXg', p256dh: 'BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA' };
  const saved = await service.request('POST', '/channels/web_push/tokens', {
    headers,
    body: { web_push: { endpoint: 'https://push.example.com/1', expirationTime: null, keys } },
  });
  expect(saved.status).toBe(201);
  const { body } = await service.project.as('ada')('GET', '/channels/web_push/tokens');
  expect(body.data).toMatchObject([{ endpoint: 'https://push.example.com/1' }]);
});

test('a Project JWT that acts for the user gets tokens that are valid', async () => {
  const headers = { authorization: `Bearer ${service.project.jwt}`, 'x-service-user-external-id': 'ada' };
  const { body } = await service.request('GET', '/config', { headers });
  const token = new URL(body.channels.web_push.config.subscribe_url).hash.slice(1);
  const started = await service.request('POST', '/integrations/web_push/installations/start', { token });
  expect(started.status).toBe(200);
});

test.each([
  ['/push/subscribe', 'text/html'],
  ['/push/subscribe.js', 'text/javascript'],
  ['/push/worker.js', 'text/javascript'],
])('%s is served with a strict policy', async (path, type) => {
  const { status, headers, text } = await service.request('GET', path);
  expect([status, headers.get('content-type')]).toEqual([200, `${type}; charset=utf-8`]);
  const policy = headers.get('content-security-policy') ?? '';
  expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'sha256-/);
  expect(policy).not.toContain('unsafe');
  expect(text).not.toMatch(/ on\w+=/);
});
