import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';

let service: TestService;
let project: TestProject;
let made = 0;

// Noon in Berlin, on a Wednesday in summer. Tests move the clock.
const NOON = Date.UTC(2026, 6, 15, 10);
let nowMs = NOON;
const HOUR_MS = 3_600_000;

let mail: SmtpStandIn;
const account = { username: 'mailer', password: 'open sesame' };

beforeAll(async () => {
  [service, mail] = await Promise.all([
    startTestService({ clock: { now: () => nowMs }, pollMs: 50 }),
    startSmtpStandIn({ account }),
  ]);
});
afterAll(() => Promise.all([service?.stop(), mail?.stop()]));

const ofProject = '/channels/delivery_windows';
const ofUser = '/channels/user_delivery_windows';
const evening = { from: '17:00', to: '22:30' };

async function newProject(): Promise<TestProject> {
  made += 1;
  project = await service.createProject(`windows ${made}`);
  return project;
}

async function eventsOf(type: string): Promise<{ user_ids: string[] | null; details: string }[]> {
  return service.rows(
    'select user_ids, details::text from events where project_id = $1 and type = $2 order by id',
    [project.id, type],
  );
}

describe('saving', () => {
  it('stores the windows of a project, and records that once', async () => {
    await newProject();
    expect((await project.call('GET', ofProject)).body).toEqual({ channels: [] });
    const config = {
      time_zone: 'Asia/Kolkata',
      channels: [{ channel: 'sms', windows: [evening, { days: ['sunday'], from: '22:00', to: '02:00' }] }],
    };
    const saved = await project.call('PUT', ofProject, config);
    expect([saved.status, saved.body]).toEqual([200, config]);
    await project.call('PUT', ofProject, config);
    expect((await project.call('GET', ofProject)).body).toEqual(config);
    expect(await eventsOf('delivery_windows.saved')).toMatchObject([{ user_ids: null }]);
  });

  it('stores the windows of each user separately', async () => {
    await newProject();
    const config = { time_zone: 'Europe/Berlin', channels: [{ channel: 'email', windows: [evening] }] };
    const saved = await project.as('ada')('PUT', ofUser, config);
    expect([saved.status, saved.body]).toEqual([200, config]);
    expect((await project.as('ada')('GET', ofUser)).body).toEqual(config);
    expect((await project.as('bob')('GET', ofUser)).body).toEqual({ channels: [] });
    expect((await project.call('GET', ofProject)).body).toEqual({ channels: [] });
    const [event] = await eventsOf('delivery_windows.saved');
    expect(event?.user_ids).toHaveLength(1);
  });

  it('names all problems, and keeps the previous windows', async () => {
    await newProject();
    const { status, body } = await project.call('PUT', ofProject, {
      time_zone: 'Mars/Phobos',
      channels: [
        {
          channel: 'sms',
          windows: [
            { from: '08:00', to: '08:00' },
            { from: '23:55', to: '00:04' },
          ],
        },
        { channel: 'sms', windows: [evening] },
      ],
    });
    expect(status).toBe(422);
    expect(body.errors.map((one: { message: string }) => one.message)).toEqual([
      "Param 'time_zone' is not the IANA name of a time zone, such as Europe/Berlin",
      "Param 'channels.1.channel' repeats channels.0: list sms once",
      "Param 'channels.0.windows.0.to' is the same as from: all day is from 00:00 to 24:00",
      "Param 'channels.0.windows.1.to' is less than 10 minutes after from",
    ]);
    expect((await project.call('GET', ofProject)).body).toEqual({ channels: [] });
  });

  it.each([
    [{ channel: 'in_app', windows: [evening] }],
    [{ channel: 'sms', windows: [] }],
    [{ channel: 'sms', windows: [{ from: '8:00', to: '21:00' }] }],
    [{ channel: 'sms', windows: [{ from: '08:00', to: '24:01' }] }],
    [{ channel: 'sms', windows: [{ from: '24:00', to: '08:00' }] }],
    [{ channel: 'sms', windows: [{ days: [], ...evening }] }],
    [{ channel: 'sms', windows: [{ days: ['monday', 'monday'], ...evening }] }],
    [{ channel: 'sms', windows: [{ days: ['montag'], ...evening }] }],
    [{ channel: 'sms', windows: [{ ...evening, until: '23:00' }] }],
  ])('refuses %j', async (channel) => {
    await newProject();
    expect((await project.call('PUT', ofProject, { channels: [channel] })).status).toBe(422);
  });

  it('describes a time of day in its message', async () => {
    await newProject();
    const { body } = await project.call('PUT', ofProject, {
      channels: [{ channel: 'sms', windows: [{ from: '8:00', to: 21 }] }],
    });
    expect(body.errors.map((one: { message: string }) => one.message)).toEqual([
      "Param 'channels.0.windows.0.from' must be a time of day such as 08:00",
      "Param 'channels.0.windows.0.to' must be a time of day such as 21:00, or 24:00",
    ]);
  });

  it('accepts windows and the critical flag in a category', async () => {
    await newProject();
    const config = {
      key: 'alerts/fire',
      critical: true,
      channels: [{ channel: 'sms', windows: [{ from: '00:00', to: '24:00' }] }],
    };
    expect((await project.call('PUT', '/channels', config)).body).toEqual(config);
    const wrong = {
      key: 'alerts',
      channels: [{ channel: 'sms', windows: [{ from: '09:00', to: '09:00' }] }],
    };
    expect((await project.call('PUT', '/channels', wrong)).body.errors[0].message).toBe(
      "Param 'channels.0.windows.0.to' is the same as from: all day is from 00:00 to 24:00",
    );
    for (const key of ['delivery_windows', 'user_delivery_windows'])
      expect((await project.call('PUT', '/channels', { key, channels: [] })).status).toBe(422);
  });
});

describe('a delivery outside of its window', () => {
  const atNight = { channels: [{ channel: 'email', windows: [{ from: '08:00', to: '21:00' }] }] };
  const berlin = { time_zone: 'Europe/Berlin', ...atNight };

  async function withMail(): Promise<void> {
    nowMs = NOON;
    mail.received.length = 0;
    await newProject();
    const saved = await project.call('PUT', '/integrations/smtp', {
      ...account,
      host: '127.0.0.1',
      port: mail.port,
      from: { email: 'news@example.com' },
      security: 'none',
    });
    expect(saved.status).toBe(200);
  }

  const recipient = (name: string, more: object = {}) => ({
    external_id: name,
    email: `${name}@${made}.example.com`,
    ...more,
  });
  const send = async (recipients: object[], more: object = {}): Promise<string> =>
    (await project.call('POST', '/broadcasts', { title: 'Hello', recipients, ...more })).body.id;
  const mailed = () =>
    mail.received.flatMap(({ to = '' }) => {
      const [name, domain] = to.split('@');
      return domain === `${made}.example.com` ? [name] : []; // of this test
    });
  const held = (times: number) => until(heldUntil, ({ length }) => length === times);
  const heldUntil = async () =>
    (await eventsOf('delivery.scheduled')).map(({ details }) =>
      Date.parse(JSON.parse(details).payload.due_at),
    );

  it('waits until the window opens, and is sent then', async () => {
    await withMail();
    await project.call('PUT', ofProject, berlin);
    nowMs = NOON + 11 * HOUR_MS; // 23:00
    const id = await send([recipient('ada')]);
    const [dueAt = 0] = await held(1);
    const opening = NOON + 20 * HOUR_MS;
    expect(dueAt).toBeGreaterThanOrEqual(opening);
    expect(dueAt).toBeLessThan(opening + 300_000);
    expect((await project.as('ada')('GET', '/notifications')).body.data).toHaveLength(1);
    expect(mailed()).toEqual([]);
    // Longer than the time to live of an e-mail, which begins when the window opens.
    nowMs = dueAt + 1;
    await processed(project.call, id);
    expect(mailed()).toEqual(['ada']);
    expect(await eventsOf('delivery.scheduled')).toHaveLength(1);
    expect(await eventsOf('delivery.failed')).toEqual([]);
  });

  it("uses the clock of each user's time zone", async () => {
    await withMail();
    await project.call('PUT', ofProject, berlin);
    const id = await send([
      recipient('ada'),
      recipient('kenji', { custom_attributes: { time_zone: 'Asia/Tokyo' } }), // 19:00
      recipient('lee', { custom_attributes: { time_zone: 'Pacific/Auckland' } }), // 22:00
      recipient('mo', { custom_attributes: { time_zone: 'Nowhere/Land' } }),
    ]);
    const [dueAt = 0] = await held(1);
    await until(mailed, ({ length }) => length === 3);
    expect(mailed().toSorted()).toEqual(['ada', 'kenji', 'mo']);
    nowMs = dueAt + 1;
    await processed(project.call, id);
    expect(mailed()).toHaveLength(4);
    expect(dueAt).toBeGreaterThanOrEqual(NOON + 10 * HOUR_MS);
  });

  it("prefers the windows of the user to those of the category, and those to the project's", async () => {
    await withMail();
    await project.call('PUT', ofProject, berlin);
    await project.call('PUT', '/channels', {
      key: 'evening',
      channels: [{ channel: 'email', windows: [evening] }],
    });
    await project.as('eve')('PUT', ofUser, {
      time_zone: 'Europe/Berlin',
      channels: [{ channel: 'email', windows: [{ from: '11:00', to: '13:00' }] }],
    });
    const id = await send([recipient('ada'), recipient('eve')], { category: 'evening' });
    const dueAt = (await held(1))[0] ?? 0;
    await until(mailed, ({ length }) => length === 1);
    expect(mailed()).toEqual(['eve']);
    nowMs = dueAt + 1;
    await processed(project.call, id);
    expect(dueAt).toBeGreaterThanOrEqual(NOON + 5 * HOUR_MS);
    expect(mailed()).toEqual(['eve', 'ada']);
  });

  it('is sent at once if its category is critical', async () => {
    await withMail();
    await project.call('PUT', ofProject, berlin);
    await project.call('PUT', '/channels', {
      key: 'alarm',
      critical: true,
      channels: [{ channel: 'email' }],
    });
    nowMs = NOON + 14 * HOUR_MS;
    await processed(project.call, await send([recipient('ada')], { category: 'alarm' }));
    expect(mailed()).toEqual(['ada']);
    expect(await eventsOf('delivery.scheduled')).toEqual([]);
  });

  it('survives a restart, and a change of the windows applies when it is due', async () => {
    await withMail();
    await project.call('PUT', ofProject, berlin);
    nowMs = NOON + 12 * HOUR_MS;
    const id = await send([recipient('ada')]);
    const first = (await held(1))[0] ?? 0;
    await project.call('PUT', ofProject, { ...berlin, channels: [{ channel: 'email', windows: [evening] }] });
    await service.restart();
    nowMs = first + 1;
    const second = (await held(2))[1] ?? 0;
    expect(second).toBeGreaterThanOrEqual(NOON + 29 * HOUR_MS);
    expect(mailed()).toEqual([]);
    nowMs = second + 1;
    await processed(project.call, id);
    expect(mailed()).toEqual(['ada']);
  });

  it('ends, although one window after another closes on it', async () => {
    await withMail();
    await project.call('PUT', ofProject, berlin);
    const unreachable = { host: '127.0.0.1', port: 1, from: { email: 'news@example.com' }, security: 'none' };
    await project.call('PUT', '/integrations/smtp', { ...account, ...unreachable });
    const id = await send([recipient('ada')]);
    const tried = (times: number) =>
      until(
        () => eventsOf('delivery.retried'),
        ({ length }) => length === times,
      );
    for (const [day] of ['first', 'second'].entries()) {
      await tried(day + 1);
      nowMs = NOON + (24 * day + 9) * HOUR_MS; // the window closes
      nowMs = ((await held(day + 1))[day] ?? 0) + 1;
    }
    await tried(3);
    // The window was open for nine, thirteen and three hours: longer than the time to live of an e-mail.
    nowMs += 3 * HOUR_MS;
    await processed(project.call, id);
    expect(await eventsOf('delivery.failed')).toHaveLength(1);
  });
});
