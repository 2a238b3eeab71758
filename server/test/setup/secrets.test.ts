import { afterAll, beforeAll, expect, test } from 'vitest';
import { devices, installSlack, reachEverywhere } from '../support/all-channels.ts';
import { processed, startTestService, type TestProject, type TestService } from '../support/service.ts';
import { tableTexts } from '../support/table-texts.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts';

// A user is reached on every channel, by vendors that accept the messages, and by vendors that reject them
// and repeat the request in the reason. Then every secret that was used is searched wherever it could remain.

const USER = 'ada';

let service: TestService;
let vendors: Vendors;
let receiver: WebhookReceiver;
let project: TestProject;

beforeAll(async () => {
  [vendors, receiver] = await Promise.all([startVendors(), startWebhookReceiver()]);
  service = await startTestService({ settings: vendors.settings, pollMs: 50, logLevel: 'trace' });
  project = service.project;
});
afterAll(async () => {
  await Promise.all([service?.stop(), vendors?.stop(), receiver?.stop()]);
});

/** Every vendor rejects each message, with what it has received as the reason. */
function rejectAll(): void {
  const { mail, phone, teams, apple, google, expo, slack } = vendors;
  mail.fail({ at: 'end', how: { reply: '554 5.7.1 mailer, open sesame: rejected' } });
  phone.reply(({ headers, body }) => ({
    status: 400,
    body: { code: 21211, message: `${JSON.stringify(headers)} ${body}`, status: 400 },
  }));
  teams.reply(({ path, headers, body }) => ({
    status: 400,
    body: `${path} ${JSON.stringify(headers)} ${body}`,
  }));
  apple.fail(devices.apns(USER), 400, `BadMessage ${devices.apns(USER)}`);
  google.fail(devices.fcm(USER), {
    status: 400,
    body: { error: { code: 400, status: 'INVALID_ARGUMENT', message: `not for ${devices.fcm(USER)}` } },
  });
  slack.refusals.set(`/services/${USER}`, [{ status: 404, headers: {} }]);
  expo.fail(devices.expo(USER), 'MessageTooBig', `"${devices.expo(USER)}" is too big`);
}

test('no table, log line, event or delivery contains a secret that was saved or used', async () => {
  await vendors.setUp(project);
  const { browser } = await reachEverywhere(project, vendors, USER);
  const installed = await installSlack(project, vendors, 'bob');
  const inboxToken = 'inbox-secret'.padEnd(64, 'x');
  const saved = await project.as(USER)('PUT', '/channels/in_app/inbox/tokens', { token: inboxToken });
  expect(saved.status).toBe(200);
  const { body: webhook } = await project.call('PUT', '/webhooks', { url: receiver.url });
  const { secret: webhookSecret } = (await project.call('GET', `/webhooks/${webhook.id}/secret`)).body;
  const recipients = [{ external_id: USER }];
  const send = async (title: string): Promise<string> => {
    const { body } = await project.call('POST', '/broadcasts', { title, recipients });
    await processed(project.call, body.id);
    return `/broadcasts/${body.id}/deliveries?limit=100`;
  };
  const states = async (path: string) =>
    new Set((await project.call('GET', path)).body.data.map(({ state }: { state: string }) => state));
  const accepted = await send('Accepted');
  expect(await states(accepted)).toEqual(new Set(['sent']));
  rejectAll();
  const rejected = await send('Rejected');
  expect(await states(rejected)).toContain('failed');
  await receiver.waitFor(10);

  const { configs } = vendors;
  const members = (config: object) => config as Record<string, string>;
  const secrets: Record<string, string> = {
    'the password of SMTP': 'open sesame',
    'the key of APNs': keyOf(members(configs.apns).certificate),
    'the key of FCM': keyOf(members(configs.fcm).private_key),
    'the token of Expo': members(configs.expo).access_token ?? '',
    'the key of web push': members(configs.web_push).private_key ?? '',
    'the client secret of Slack': members(configs.slack).client_secret ?? '',
    'the signing secret of Slack': members(configs.slack).signing_secret ?? '',
    'a token of a bot': installed.accessToken,
    'a device of APNs': devices.apns(USER),
    'a device of FCM': devices.fcm(USER),
    'a device of Expo': devices.expo(USER),
    'the endpoint of a browser': browser.endpoint,
    'the secret of a browser': browser.keys.auth,
    'a webhook of Slack': `${vendors.slack.webhooksUrl}/${USER}`,
    'a webhook of Teams': `${vendors.teams.address}/${USER}`,
    'an inbox token': inboxToken,
    'the secret of a webhook': webhookSecret,
    'the API secret': project.apiSecret,
    'the signature of the Project JWT': project.jwt.split('.')[2] ?? '',
  };
  const places: Record<string, string[]> = {
    tables: await tableTexts(service),
    logs: service.logged,
    events: await texts('/events?limit=100'),
    webhooks: await texts('/webhooks'),
    deliveries: [...(await texts(accepted)), ...(await texts(rejected))],
    messages: receiver.received.map(({ raw }) => raw.toString()),
  };
  for (const [place, found] of Object.entries(places))
    expect([place, found.length > 0]).toEqual([place, true]);
  const left = Object.entries(secrets).flatMap(([name, secret]) =>
    Object.entries(places).flatMap(([place, all]) =>
      all
        .filter((text) => formsOf(secret).some((form) => text.includes(form)))
        .map((text) => `${name} in ${place}: ${text.slice(0, 300)}`),
    ),
  );
  expect(left).toEqual([]);
});

async function texts(path: string): Promise<string[]> {
  const { status, text } = await project.call('GET', path);
  expect([path, status]).toEqual([path, 200]);
  return [text];
}

/** The longest line of a key, without the escapes of JSON. */
function keyOf(pem = ''): string {
  return pem.split('\n').toSorted((a, b) => b.length - a.length)[0] ?? '';
}

/** A secret as it is, within JSON, in base64 and in hexadecimal digits. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('hex'),
  ];
}
