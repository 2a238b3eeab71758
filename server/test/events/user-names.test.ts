import { afterAll, beforeAll, expect, test } from 'vitest';
import { saveSmtp } from '../support/faults.ts';
import { processed, startTestService, type TestProject, type TestService } from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { startWebhookReceiver } from '../support/webhook-receiver.ts';

let service: TestService;
let mail: SmtpStandIn;
let project: TestProject;

beforeAll(async () => {
  [service, mail] = await Promise.all([startTestService({ pollMs: 50 }), startSmtpStandIn()]);
  project = service.project;
  await saveSmtp(project, mail);
  mail.fail({ at: 'rcpt', how: { reply: '550 5.1.1 No such user' } });
});
afterAll(async () => {
  await Promise.all([service?.stop(), mail?.stop()]);
});

const ada = { external_id: 'ada', email: 'ada.lovelace@example.com' };
const named = { external_id: 'ada', email: 'a***@example.com' };

test('deliveries, events and errors name the user as the project knows it, until it is deleted', async () => {
  const { body } = await project.call('POST', '/broadcasts', { title: 'Hello', recipients: [ada] });
  const { status } = await processed(project.call, body.id);
  const { body: users } = await project.call('GET', '/users');
  const [{ id: userId }] = users.data;
  expect(status.errors).toEqual([
    {
      message: expect.stringContaining(`email to user ${userId} (ada, a***@example.com) failed: `),
    },
  ]);
  const lists = [
    `/broadcasts/${body.id}/deliveries`,
    `/broadcasts/${body.id}/deliveries?state=failed`,
    '/events?type=delivery.*',
  ];
  const shown = async () => {
    const names: unknown[] = [];
    for (const path of lists) {
      const response = await project.call('GET', path);
      expect([response.status, response.body.data.length > 0]).toEqual([200, true]);
      for (const one of response.body.data) names.push(one.user);
      if (path.startsWith('/events'))
        names.push((await project.call('GET', `/events/${response.body.data[0].id}`)).body.user);
      const notification = response.body.data[0].notification_id;
      if (notification === undefined) continue;
      const own = await project.call('GET', `/notifications/${notification}/deliveries`);
      for (const one of own.body.data) names.push(one.user);
    }
    return names;
  };
  const before = await shown();
  expect(before.length).toBeGreaterThan(5);
  expect(before).toEqual(before.map(() => named));

  // A name that was changed is shown as it is now.
  await project.call('PUT', `/users`, { external_id: 'ada', email: 'new@elsewhere.example' });
  expect(await shown()).toEqual(before.map(() => ({ external_id: 'ada', email: 'n***@elsewhere.example' })));

  await project.call('DELETE', `/users/${userId}`);
  expect((await shown()).filter((user) => user !== null && user !== undefined)).toEqual([]);
  const deleted = await project.call('GET', `/broadcasts/${body.id}`);
  expect(deleted.body.status.errors[0].message).toMatch(new RegExp(`^email to user ${userId} failed: `));
});

test('a user without an address or without an external id is shown with what there is', async () => {
  const recipients = [{ external_id: 'only id' }, { email: 'o@example.com' }];
  const { body } = await project.call('POST', '/broadcasts', { title: 'Hello', recipients });
  await processed(project.call, body.id);
  const { body: list } = await project.call('GET', `/broadcasts/${body.id}/deliveries?channel=in_app`);
  const names = list.data.map(({ user }: { user: object }) => JSON.stringify(user)).sort();
  expect(names).toEqual(
    [
      { external_id: null, email: 'o***@example.com' },
      { external_id: 'only id', email: null },
    ]
      .map((user) => JSON.stringify(user))
      .sort(),
  );
});

test('webhooks have the names, too, and stored events do not', async () => {
  const receiver = await startWebhookReceiver();
  try {
    const of = await service.createProject('hooks');
    await of.call('PUT', '/webhooks', { url: receiver.url, event_types: ['notification.created'] });
    await of.call('POST', '/broadcasts', { title: 'Hello', recipients: [ada] });
    const [message] = await receiver.waitFor(1);
    expect(message?.body.data.user).toEqual(named);
    const stored = await service.rows<{ details: string | null }>(
      'select details::text as details from events where project_id = $1',
      [of.id],
    );
    expect(stored.filter(({ details }) => details?.includes('ada'))).toEqual([]);
  } finally {
    await receiver.stop();
  }
});
