import type { Emulator } from 'emulate';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startEmulator } from '../support/emulator.ts';
import { startTestService, type TestService } from '../support/service.ts';

// A user's whole path into Slack and back, against an emulator that others wrote and that can disagree with
// us.

const APP = {
  app_id: 'A0EMULATE',
  client_id: '12345.67890',
  client_secret: 'e'.repeat(32),
  signing_secret: 's'.repeat(32),
};
const REDIRECT = 'https://app.example.com/slack/callback';

let slack: Emulator;
let address: string;
let service: TestService;

beforeAll(async () => {
  const { app_id, client_id, client_secret } = APP;
  const app = { app_id, client_id, client_secret, name: 'Belfry', redirect_uris: [REDIRECT] };
  ({ emulator: slack, address } = await startEmulator('slack', {
    team: { name: 'Example' },
    users: [{ name: 'ann' }],
    oauth_apps: [app],
  }));
  service = await startTestService({
    settings: {
      PROVIDER_SLACK_API_URL: `${address}/api`,
      PROVIDER_SLACK_AUTHORIZE_URL: `${address}/oauth/v2/authorize`,
    },
  });
  await service.project.call('PUT', '/integrations/slack', APP);
});
afterAll(async () => {
  await service?.stop();
  await slack?.close();
});

/** What a person does: opens the URL, chooses a user, and is redirected back. */
async function authorize(authUrl: string): Promise<URLSearchParams> {
  const page = await (await fetch(authUrl)).text();
  const fields = [...page.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
  const form = new URLSearchParams();
  for (const [, name = '', value = ''] of fields)
    if (!form.has(name)) form.set(name, value.replaceAll('&amp;', '&'));
  expect(form.get('user_id')).toMatch(/^U/);
  const action = new URL('/oauth/v2/authorize/callback', authUrl);
  const sent = await fetch(action, { method: 'POST', body: form, redirect: 'manual' });
  const back = new URL(sent.headers.get('location') ?? 'about:blank');
  expect(`${back.origin}${back.pathname}`).toBe(REDIRECT);
  return back.searchParams;
}

test('start, the consent page and finish create an installation whose token Slack accepts', async () => {
  const call = service.project.as('ann');
  const started = await call('POST', '/integrations/slack/installations/start', {
    app_id: APP.app_id,
    redirect_url: REDIRECT,
    extra_scopes: ['channels:read'],
  });
  expect(started.status).toBe(200);
  const query = await authorize(started.body.auth_url);
  const body = {
    app_id: APP.app_id,
    redirect_url: REDIRECT,
    code: query.get('code'),
    state: query.get('state'),
  };
  const finished = await call('POST', '/integrations/slack/installations/finish', body);
  expect([finished.status, finished.body]).toMatchObject([
    200,
    {
      id: expect.stringMatching(/^A0EMULATE-T\w+$/),
      app_id: APP.app_id,
      access_token: expect.stringMatching(/^xoxb-/),
      scope: 'chat:write,incoming-webhook,channels:read',
    },
  ]);
  expect(finished.body).not.toHaveProperty('enterprise');
  const tested = await fetch(`${address}/api/auth.test`, {
    method: 'POST',
    headers: { authorization: `Bearer ${finished.body.access_token}` },
  });
  expect(await tested.json()).toMatchObject({ ok: true, team_id: finished.body.team.id });

  const again = await call('POST', '/integrations/slack/installations/finish', body);
  expect([again.status, again.body.errors[0].message]).toEqual([
    422,
    "Param 'code' is not accepted by Slack: invalid_code",
  ]);
});

test('a wrong secret and another redirect are rejected as Slack rejects them', async () => {
  const call = service.project.as('ann');
  const start = { app_id: APP.app_id, redirect_url: REDIRECT };
  const { body } = await call('POST', '/integrations/slack/installations/start', start);
  const finish = { app_id: APP.app_id, code: (await authorize(body.auth_url)).get('code') };
  const elsewhere = { ...finish, redirect_url: 'https://elsewhere.example.com' };
  const refused = await call('POST', '/integrations/slack/installations/finish', elsewhere);
  expect([refused.status, refused.body.errors[0].message]).toEqual([
    422,
    "Param 'redirect_url' is not accepted by Slack: bad_redirect_uri",
  ]);
  await service.project.call('PUT', '/integrations/slack', { ...APP, client_secret: 'x'.repeat(32) });
  const wrong = await call('POST', '/integrations/slack/installations/finish', finish);
  expect([wrong.status, wrong.body.errors[0].code]).toEqual([422, 'verification_failed']);
});
