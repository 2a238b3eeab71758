import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
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
  const { apns, fcm } = vendors.configs as Record<string, { certificate?: string }>;
  await writeFile(join(folder, 'AuthKey_ABCDEFGHIJ.p8'), apns?.certificate ?? '');
  await writeFile(join(folder, 'service-account.json'), JSON.stringify(fcm));
});
afterAll(async () => {
  await service?.stop();
  await vendors?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Runs the examples of a guide for the user `ada` of a new project, and returns the project. */
async function run(guide: string, replaced: Record<string, string> = {}) {
  const text = await readFile(new URL(`../../../docs/guides/${guide}.md`, import.meta.url), 'utf8');
  const examples = [...text.matchAll(/^```sh\n(.*?)^```/gms)].map(([, example]) => example);
  expect(examples.length).toBeGreaterThan(2);
  let script = ['set -euo pipefail', 'curl() { command curl -sS --fail-with-body "$@"; }', ...examples].join(
    '\n',
  );
  for (const [shown, real] of Object.entries(replaced)) script = script.replaceAll(shown, real);
  const project = await service.createProject(guide);
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

test('the examples about text messages reach a phone', async () => {
  await expectSent(await run('text-messages'), 'sms');
});

test('the examples about users leave what they say', async () => {
  const project = await run('users');
  const { body: users } = await project.call('GET', '/users');
  expect(users.data).toMatchObject([
    { external_id: 'ada', first_name: 'Ada', custom_attributes: { plan: 'team' } },
  ]);
});
