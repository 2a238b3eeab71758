import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { packJson } from '../../src/lib/packed-json.ts';
import { integrationConfigs } from '../support/integration-configs.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { ended, STATE, startRun } from '../support/workflows.ts';

let it: TestService;
let user: string;
beforeAll(async () => {
  it = await startTestService({ settings: { EGRESS_ALLOW: '' } });
  user = it.project.userJwt({ user_external_id: 'ada' });
});
afterAll(() => it.stop());

const { smtp, fcm } = integrationConfigs;
const keys = { auth: 'a', p256dh: 'p' };
const PAUSE = { command: 'pause' };
const call = (host: string) => ({ command: 'http', input: { url: `http://${host}/latest` } });
const inBranch = (...steps: object[]) => ({
  command: 'branch',
  input: { branches: [{ if: 'true', steps }] },
});
const SAVES: [path: string, field: string, body: (host: string) => object, asUser?: 'as user'][] = [
  ['/webhooks', 'url', (host) => ({ url: `http://${host}/hook` })],
  ['/integrations/smtp', 'host', (host) => ({ ...smtp.minimal, host })],
  ['/integrations/ping_email', 'url', (host) => ({ url: `https://${host}:8443/mailer` })],
  ['/integrations/teams', 'webhook.url', (host) => ({ webhook: { url: `https://${host}/` } })],
  ['/integrations/fcm', 'token_uri', (host) => ({ ...fcm.minimal, token_uri: `https://${host}/token` })],
  ['/workflows', 'steps.0.input.url', (host) => ({ key: 'calls', steps: [call(host)] })],
  [
    '/workflows',
    'steps.1.input.branches.0.steps.0.input.branches.0.steps.1.input.url',
    (host) => ({ key: 'calls', steps: [PAUSE, inBranch(inBranch(PAUSE, call(host)))] }),
  ],
  ['/channels/teams/tokens', 'webhook.url', (host) => ({ webhook: { url: `https://${host}/` } }), 'as user'],
  ['/channels/slack/tokens', 'webhook.url', (host) => ({ webhook: { url: `https://${host}/` } }), 'as user'],
  [
    '/channels/slack/service_slackbot/tokens',
    'webhook.url',
    (host) => ({ webhook: { url: `https://${host}/` } }),
    'as user',
  ],
  [
    '/channels/web_push/tokens',
    'endpoint',
    (host) => ({ endpoint: `https://${host}/push`, keys }),
    'as user',
  ],
  [
    '/integrations/web_push/installations',
    'endpoint',
    (host) => ({ endpoint: `https://${host}/push`, keys }),
    'as user',
  ],
];

/** What a URL can have instead of an address within a network. */
const SPELLINGS = [
  ...['0.0.0.0', '100.64.0.1', '172.16.0.1', '192.168.0.1', '[::1]', '[fe80::1]', '[fd00::1]'],
  ...['[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[64:ff9b::7f00:1]', '[2002:7f00:1::]'],
  ...['2130706433', '0x7f000001', '0x7f.1', '0177.0.0.1', '017700000001', '127.1', '0', '127.0.0.1.'],
  ...['%31%32%37.0.0.1', '１２７.0.0.1', '①②⑦.0.0.1', '127。0。0。1'],
];

test.each(SAVES)('%s rejects a private host, naming %s', async (path, field, body, asUser) => {
  const token = asUser === undefined ? it.project.jwt : user;
  const put = (host: string, more = {}) =>
    it.request('PUT', `/v2${path}`, { token, body: { ...body(host), ...more } });
  const rejects = async (host: string) => {
    const { status, codes, messages } = await put(host);
    expect([status, codes], host).toEqual([422, ['validation_failed']]);
    expect(messages[0]).toContain(`Param '${field}' must lead to a public address: ${host}`);
  };
  for (const host of ['10.1.2.3', '127.0.0.1', '169.254.169.254']) await rejects(host);
  if (path !== '/integrations/smtp')
    for (const host of SPELLINGS) {
      const { status, messages } = await put(host);
      const refusal = `Param '${field}' must lead to a public address: `;
      expect([host, status, messages.filter((one) => one.startsWith(refusal)).length]).toEqual([
        host,
        422,
        1,
      ]);
    }
  await Promise.all(['localhost', 'a.localhost', 'localhost'].map(rejects));
  // Together with the errors of its schema.
  const wrong = await put('10.1.2.3', { more: 1 });
  expect(wrong.messages).toEqual([
    "Param '(root)' doesn't allow key: more",
    expect.stringContaining(`Param '${field}' must lead`),
  ]);
  expect((await put('1.1.1.1')).status).toBe(200);
});

test.each([
  ['http://127.0.0.1/{{ input.path }}', 422],
  ['http://127.0.0.1?a={% if true %}b{% endif %}', 422],
  ['http://10.0.0.1:8080/a#{{ input.path }}', 422],
  ['http:127.0.0.1/{{ input.path }}', 422],
  ['http://127.0.0.1{{ input.more }}/', 200],
  ['http://{{ input.host }}/127.0.0.1/', 200],
  ['{{ input.scheme }}://127.0.0.1/', 200],
  ['http://1.1.1.1/{{ input.path }}', 200],
])('the host in %s is checked when it is fixed: %d', async (url, status) => {
  const steps = [{ command: 'http', input: { url } }];
  const saved = await it.project.call('PUT', '/workflows', { key: 'fixed', steps });
  expect([saved.status, saved.messages]).toEqual([
    status,
    status === 200 ? [] : [expect.stringContaining("Param 'steps.0.input.url' must lead")],
  ]);
});

test('a URL that a template makes is checked when the request is sent', async () => {
  const run = await startRun(
    it.project,
    [{ command: 'http', input: { url: '{{ input.url }}', retries: 0 } }],
    {
      url: 'http://169.254.169.254/latest',
    },
  );
  const { status } = await ended(it.project, run);
  expect([status.state, status.error]).toEqual([STATE.failed, expect.stringContaining('EGRESS_ALLOW')]);
});

test('a stored workflow with a private host is run until its request, and not restored', async () => {
  const steps = [{ command: 'http', input: { url: 'http://1.1.1.1/latest', retries: 0 } }];
  expect((await it.project.call('PUT', '/workflows', { key: 'stored', steps })).status).toBe(200);
  const earlier = JSON.stringify(steps).replace('1.1.1.1', '169.254.169.254');
  const change = "update workflow_versions set steps = $1 where key = 'stored'";
  await it.context.db.query(sql('', change), [packJson(earlier)]);
  const { body } = await it.project.call('POST', '/workflows/runs', { key: 'stored' });
  const { status } = await ended(it.project, body.id);
  expect([status.state, status.error]).toEqual([STATE.failed, expect.stringContaining('EGRESS_ALLOW')]);
  const restored = await it.project.call('POST', '/workflows/stored/versions/1/restore', {});
  expect([restored.status, restored.messages]).toEqual([
    422,
    [expect.stringContaining("Param 'steps.0.input.url' must lead to a public address: 169.254.169.254")],
  ]);
});

test('a workflow with a private host can be disabled, and not enabled again', async () => {
  const steps = [{ command: 'http', input: { url: 'http://169.254.169.254/latest' } }];
  const save = (disabled: boolean) =>
    it.project.call('PUT', '/workflows', { key: 'disabled', disabled, steps });
  expect((await save(true)).status).toBe(200);
  expect((await save(false)).messages).toEqual([expect.stringContaining("Param 'steps.0.input.url'")]);
});

test('a cloud of FCM with an unknown domain is saved', async () => {
  const body = { ...fcm.minimal, universe_domain: 'nowhere.invalid' };
  expect((await it.request('PUT', '/v2/integrations/fcm', { token: it.project.jwt, body })).status).toBe(200);
});

test('the host of an SMTP server is only a name or an address', async () => {
  const put = (host: unknown) =>
    it.request('PUT', '/v2/integrations/smtp', { token: it.project.jwt, body: { ...smtp.minimal, host } });
  for (const host of [
    'mail.invalid',
    'xn--exmple-cua.invalid',
    'mail-1.a--b.invalid.',
    'mail',
    '2606:4700::1',
  ])
    expect((await put(host)).status, host).toBe(200);
  for (const host of [
    '',
    ' ',
    'a b',
    'mail.invalid:25',
    'smtp://mail.invalid',
    'mail.invalid/x',
    'a..b',
    '.a',
    '-a',
  ])
    expect((await put(host)).messages, host).toEqual([
      "Param 'host' must be a host name or an IP address, without a port",
    ]);
  for (const slow of ['a'.repeat(200_000), 'a-'.repeat(100_000), 'a.'.repeat(100_000), ':'.repeat(200_000)])
    expect((await put(`${slow}!`)).status).toBe(422);
});
