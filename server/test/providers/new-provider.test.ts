import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BelfryProcess, startBelfry } from '../support/belfry-process.ts';
import { LAUNCHER } from '../support/program.ts';
import { projectWith, until } from '../support/service.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';

// A provider is a folder and a line in providers/list.ts. The server runs here with a made-up provider for
// each channel that was added in exactly this way: see support/made-up.

const CHANNELS = ['email', 'sms', 'mobile_push', 'web_push', 'slack', 'teams'] as const;
const TOKENS: [path: string, body: object][] = [
  ['mobile_push/made_up_mobile_push', { device_token: 'device-1' }],
  ['made_up/web_push', { url: 'https://browser.example/1' }],
  ['made_up/slack', { url: 'https://chat.example/1' }],
  ['made_up/teams', { url: 'https://team.example/1' }],
];
const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const NODE_OPTIONS = `--import ${new URL('../support/made-up/hook.ts', import.meta.url).href}`;

const dataDir = mkdtempSync(join(tmpdir(), 'belfry-made-up-'));
let vendor: VendorStandIn;
let belfry: BelfryProcess;

beforeAll(async () => {
  vendor = await startVendor();
  vendor.reply({ status: 200 });
  const origins = CHANNELS.map((channel) => [
    `PROVIDER_MADE_UP_${channel.toUpperCase()}_BASE_URL`,
    vendor.address,
  ]);
  belfry = await startBelfry(dataDir, { NODE_OPTIONS, ...Object.fromEntries(origins) }, LAUNCHER);
});
afterAll(async () => {
  await belfry?.killTree();
  await vendor?.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

test('a provider is one folder and one line: it is configured, accepts tokens, and delivers', async () => {
  const { project_id: id, api_key: apiKey, api_secret: apiSecret, project_jwt: jwt } = belfry.credentials;
  const { call, as } = projectWith(() => belfry.address, { id, apiKey, apiSecret, jwt });
  const ada = as('ada');
  for (const channel of CHANNELS)
    expect((await call('PUT', `/integrations/made_up_${channel}`, { api_key: 'k' })).status).toBe(200);
  for (const [path, token] of TOKENS) {
    expect((await ada('PUT', `/channels/${path}/tokens`, token)).body).toEqual(token);
    expect((await ada('GET', `/channels/${path}/tokens`)).body).toMatchObject({ data: [token] });
  }
  await call('POST', '/broadcasts', {
    title: 'Hello',
    recipients: [{ external_id: 'ada', email: 'ada@example.com', phone_numbers: ['+15005550001'] }],
    overrides: { providers: { made_up_sms: { flash: true } } },
  });
  const received = await until(
    async () => vendor.requests.map(({ path, body }) => [path.slice(1), JSON.parse(body)]),
    (requests) => requests.length >= CHANNELS.length,
  );
  expect(Object.fromEntries(received)).toEqual({
    email: { to: 'ada@example.com' },
    sms: { to: '+15005550001', override: { flash: true } },
    mobile_push: { to: 'device-1' },
    web_push: { to: 'https://browser.example/1' },
    slack: { to: 'https://chat.example/1' },
    teams: { to: 'https://team.example/1' },
  });
});

test('it is in the API description, in the settings and in the reference pages', async () => {
  const { paths } = (await (await fetch(new URL('/v2/openapi.json', belfry.address))).json()) as {
    paths: Record<string, unknown>;
  };
  for (const channel of CHANNELS) expect(paths).toHaveProperty([`/integrations/made_up_${channel}`]);
  for (const [path] of TOKENS) expect(paths).toHaveProperty([`/channels/${path}/tokens`]);
  const { stdout } = await promisify(execFile)(process.execPath, [main, 'generate', '--check'], {
    env: { ...process.env, NODE_OPTIONS },
  }).catch((error: { stdout: string }) => error);
  const stale = stdout.split('\n').map((line) => line.split(' ')[0]);
  expect(stale).toEqual(expect.arrayContaining(['openapi.json', 'docs/reference/settings.md']));
  for (const channel of CHANNELS) expect(stale).toContain(`docs/reference/providers/made_up_${channel}.md`);
});
