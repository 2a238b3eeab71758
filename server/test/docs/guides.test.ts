import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestService, type TestService, until } from '../support/service.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';

// The examples of guides run as a reader runs them: in a shell, with curl, in their order.

let service: TestService;
let vendors: Vendors;
let folder: string;
beforeAll(async () => {
  vendors = await startVendors();
  [service, folder] = await Promise.all([
    startTestService({ settings: vendors.settings }),
    mkdtemp(join(tmpdir(), 'belfry-guides-')),
  ]);
  await mkdir(join(folder, 'data'));
  const { apns, fcm } = vendors.configs as Record<string, { certificate?: string }>;
  await writeFile(join(folder, 'AuthKey_ABCDEFGHIJ.p8'), apns?.certificate ?? '');
  await writeFile(join(folder, 'service-account.json'), JSON.stringify(fcm));
});
afterAll(async () => {
  await service?.stop();
  await vendors?.stop();
  await rm(folder, { recursive: true, force: true });
});

// A reader is slower than a script: what one request sends has arrived before the next one.
const CURL = `
call() { command curl -sS --fail-with-body "$@"; }
curl() {
  local response id tries
  if [[ "$*" != *"POST $BELFRY/broadcasts "* ]]; then call "$@"; return; fi
  response=$(call "$@")
  echo "$response"
  if [[ $response == *'"send_at":null'* ]]; then
    id=$(node -p 'JSON.parse(process.argv[1]).id' "$response")
    for tries in {1..500}; do
      if [[ $(call "$BELFRY/broadcasts/$id" -H "$AUTH") == *'"status":"processed"'* ]]; then return; fi
    done
    return 1
  fi
}`;

/** Runs the examples of a guide for the user `ada` of a new project, and returns the project. */
async function run(guide: string, replaced: Record<string, string> = {}) {
  const text = await readFile(new URL(`../../../docs/guides/${guide}.md`, import.meta.url), 'utf8');
  const examples = [...text.matchAll(/^```sh\n(.*?)^```/gms)].map(([, example]) => example);
  expect(examples.length).toBeGreaterThan(2);
  let script = ['set -euo pipefail', CURL, ...examples].join('\n');
  const project = await service.createProject(guide);
  await writeFile(
    join(folder, 'data', 'credentials.json'),
    JSON.stringify({ project_jwt: project.jwt, api_key: project.apiKey, api_secret: project.apiSecret }),
  );
  const everywhere = {
    'http://127.0.0.1:3000': service.address,
    'npx belfry token user --external-id ada': 'echo $USER_JWT',
  };
  for (const [shown, real] of Object.entries({ ...everywhere, ...replaced }))
    script = script.replaceAll(shown, real);
  await promisify(execFile)('bash', ['-c', script], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      BELFRY: `${service.address}/v2`,
      AUTH: `Authorization: Bearer ${project.jwt}`,
      JSON: 'Content-Type: application/json',
      USER_JWT: project.userJwt({ user_external_id: 'ada' }),
    },
  });
  return project;
}

/** Waits until all deliveries of the newest notification of `ada` on a channel are sent. */
async function expectSent(project: Awaited<ReturnType<typeof run>>, channel: string): Promise<void> {
  const newest = () => project.call('GET', '/users/external_id:ada/notifications?limit=1');
  const { body } = await until(newest, (response) => response.body.data?.length > 0); // a 404 before
  const [{ id }] = body.data;
  const states = async () => {
    const deliveries = await project.call('GET', `/notifications/${id}/deliveries`);
    return deliveries.body.data
      .filter((one: { channel: string }) => one.channel === channel)
      .map(({ state }: { state: string }) => state);
  };
  await until(states, (all) => all.length > 0 && all.every((one: string) => one === 'sent'));
}

test('the examples about mobile push reach a phone', async () => {
  await expectSent(await run('mobile-push'), 'mobile_push');
});

test('the examples about chat reach Slack and Teams', async () => {
  const project = await run('chat', {
    'https://prod-01.westeurope.logic.azure.com': vendors.teams.address,
    'https://hooks.slack.com/services': vendors.slack.webhooksUrl,
  });
  await expectSent(project, 'teams');
  await expectSent(project, 'slack');
});

test('the examples about e-mail reach a mailbox', async () => {
  const config = vendors.configs.smtp as { host: string; port: number; username: string; password: string };
  const project = await run('email', {
    '"host": "smtp.example.com", "port": 587, "username": "mailer", "password": "secret"': JSON.stringify({
      host: config.host,
      port: config.port,
      username: config.username,
      password: config.password,
    }).slice(1, -1),
    '"security": "starttls"': '"security": "none"',
    '"port": 1025, "username": "", "password": ""': `"port": ${config.port}, ${JSON.stringify({
      username: config.username,
      password: config.password,
    }).slice(1, -1)}`,
  });
  await expectSent(project, 'email');
  const [email] = await vendors.mail.waitFor(1);
  expect((await email?.parsed())?.subject).toBe('Your order has shipped');
});

test('the examples about text messages reach a phone', async () => {
  await expectSent(await run('text-messages'), 'sms');
});

test('the examples about deliveries run in their order, and cancel at the end', async () => {
  const project = await run('deliveries');
  const { body } = await project.call('GET', '/broadcasts');
  const statuses = body.data.map(({ title }: { title: string }) => title);
  expect(statuses).toEqual(['Happy new year', 'Hello']);
});

test('the examples about channels keep the config that they began with', async () => {
  const project = await run('channels', { 'host": "smtp.example.com"': 'host": "127.0.0.1"' });
  const { body: config } = await project.call('GET', '/channels/orders%2Flate');
  expect(config).toMatchObject({
    label: 'Late orders',
    channels: [{ channel: 'in_app' }, { channel: 'mobile_push' }, { channel: 'email', delay: 900 }],
  });
  const { body: subscribers } = await project.call('GET', '/topics/orders%2F1042/subscribers');
  expect(subscribers.data).toHaveLength(2);
});

test('the examples about imports save the users, and export them', async () => {
  const project = await run('importing-users');
  const { body: users } = await project.call('GET', '/users?query=lovelace');
  expect(users.data).toMatchObject([{ external_id: 'ada', custom_attributes: { plan: 'pro' } }]);
  expect(await readFile(join(folder, 'users.csv'), 'utf8')).toContain('Lovelace');
});

test('the examples about moving save what the other service had', async () => {
  const text = await readFile(new URL('../../../docs/guides/moving.md', import.meta.url), 'utf8');
  await writeFile(join(folder, 'move-tokens.mjs'), /```js\n(.*?)```/s.exec(text)?.[1] ?? '');
  const project = await run('moving');
  const { body: tokens } = await project.call(
    'GET',
    '/users/external_id:ada/channels/mobile_push/apns/tokens',
  );
  expect(tokens.data).toHaveLength(1);
  const { body: preferences } = await project.call('GET', '/users/external_id:grace/preferences');
  expect(JSON.stringify(preferences.categories)).toContain('"newsletter"');
  const { body: suppressions } = await project.call('GET', '/suppressions');
  expect(suppressions.data).toMatchObject([{ email: 'old@example.com', reason: 'bounced' }]);
});

test('the examples about users leave what they say', async () => {
  const project = await run('users');
  const { body: users } = await project.call('GET', '/users');
  expect(users.data).toMatchObject([
    { external_id: 'ada', first_name: 'Ada', custom_attributes: { plan: 'team' } },
  ]);
});
