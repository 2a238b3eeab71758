import { afterAll, beforeAll, expect, test } from 'vitest';
import { CHANNELS } from '../../src/contract/channel.ts';
import type { DeliveryRecord } from '../../src/contract/delivery.ts';
import { devices, saveToken } from '../support/all-channels.ts';
import { listAll } from '../support/pages.ts';
import { processed, startTestService, type TestProject, type TestService } from '../support/service.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';

// Who gets what where: every kind of category, on every channel, to users with every combination of an
// opt-out and an address, through the API. The oracle applies the rules of the contract one by one.

let service: TestService;
let vendors: Vendors;
let project: TestProject;

beforeAll(async () => {
  vendors = await startVendors();
  service = await startTestService({ settings: vendors.settings, pollMs: 50 });
  project = service.project;
  await vendors.setUp(project, ['smtp', 'twilio', 'fcm', 'web_push', 'slack']);
  await project.call('PUT', '/integrations/teams', {}); // without a destination for all users
  for (const { key, ...config } of CATEGORIES)
    if (config.channels !== undefined)
      expect((await project.call('PUT', '/channels', { key, ...config })).status).toBe(200);
  await Promise.all(PEOPLE.map(enter));
});
afterAll(async () => {
  await Promise.all([service?.stop(), vendors?.stop()]);
});

const on = (...names: string[]) => names.map((channel) => ({ channel }));
const CATEGORIES: { key: string; channels?: { channel: string }[]; disabled?: true; critical?: true }[] = [
  { key: 'unknown' },
  { key: 'everywhere', channels: on(...CHANNELS) },
  { key: 'inbox', channels: on('in_app') },
  { key: 'messages', channels: on('email', 'sms', 'mobile_push') },
  { key: 'codes', channels: on('in_app', 'email', 'sms'), critical: true },
  { key: 'alarms', channels: on(...CHANNELS), critical: true },
  { key: 'stopped', channels: on(...CHANNELS), disabled: true },
  { key: 'alarms/stopped', channels: on(...CHANNELS), disabled: true, critical: true },
];

/** Four bits of a user's number decide: two of them on each channel, another pair on each. */
const PEOPLE = Array.from({ length: 16 }, (_, number) => {
  const having = (bit: (channel: number) => number) =>
    new Set<string>(CHANNELS.filter((_name, channel) => (number >> (bit(channel) % 4)) & 1));
  return {
    name: `user-${number}`,
    addresses: having((channel) => channel),
    off: having((channel) => channel + 1 + Math.floor(channel / 4)),
  };
});
type Person = (typeof PEOPLE)[number];

async function enter({ name, addresses, off }: Person, index: number): Promise<void> {
  const user = {
    external_id: name,
    ...(addresses.has('email') ? { email: `${name}@example.com` } : {}),
    ...(addresses.has('sms') ? { phone_numbers: [`+1415555${1000 + index}`] } : {}),
  };
  expect((await project.call('PUT', '/users', user)).status).toBe(200);
  if (addresses.has('mobile_push'))
    await saveToken(project, name, 'mobile_push/fcm', { device_token: devices.fcm(name) });
  if (addresses.has('web_push')) {
    const { public_key: publicKey } = vendors.configs.web_push as { public_key: string };
    const { endpoint, keys } = await vendors.browsers.subscribe(publicKey);
    await saveToken(project, name, 'web_push', { endpoint, keys });
  }
  if (addresses.has('slack'))
    await saveToken(project, name, 'slack', { webhook: { url: `${vendors.slack.webhooksUrl}/${name}` } });
  if (addresses.has('teams'))
    await saveToken(project, name, 'teams', { webhook: { url: `${vendors.teams.address}/${name}` } });
  // What is required cannot be switched off.
  const categories = CATEGORIES.filter(({ critical }) => critical === undefined).map(({ key }) => ({
    key,
    channels: CHANNELS.map((channel) => ({ name: channel, enabled: !off.has(channel) })),
  }));
  const saved = await project.as(name)('PUT', '/channels/user_preferences', { categories });
  expect(saved.status).toBe(204);
}

/** The outcome of a delivery by the rules of the contract. */
function oracle({ channels, disabled, critical }: (typeof CATEGORIES)[number], channel: string, to: Person) {
  if (disabled) return 'category_disabled';
  if (channels !== undefined && !channels.some((one) => one.channel === channel)) return 'channel_not_listed';
  if (to.off.has(channel) && !critical) return 'switched_off';
  if (channel !== 'in_app' && !to.addresses.has(channel)) return 'unreachable';
  return 'sent';
}

test.each(CATEGORIES)('deliveries of the category $key follow the rules', async (category) => {
  const recipients = PEOPLE.map(({ name }) => ({ external_id: name }));
  const { body } = await project.call('POST', '/broadcasts', {
    title: 'Hello',
    category: category.key,
    recipients,
  });
  await processed(project.call, body.id);
  const listed = await listAll<DeliveryRecord>(project.call, `/broadcasts/${body.id}/deliveries?limit=100`);
  const became = listed.map(
    ({ user, channel, state, code }) => `${user?.external_id} ${channel}: ${code ?? state}`,
  );
  const expected = PEOPLE.flatMap((person) =>
    CHANNELS.map((channel) => `${person.name} ${channel}: ${oracle(category, channel, person)}`),
  );
  expect(became.sort()).toEqual(expected.sort());
});

test('the users have every combination on each channel', () => {
  for (const channel of CHANNELS) {
    const kinds = PEOPLE.map(({ addresses, off }) => `${addresses.has(channel)} ${off.has(channel)}`);
    expect(new Set(kinds).size).toBe(4);
  }
});
