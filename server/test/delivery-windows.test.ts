import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../src/db/client.ts';
import { startTestService, type TestProject, type TestService } from './support/service.ts';

let service: TestService;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service?.stop());

const ofProject = '/channels/delivery_windows';
const ofUser = '/channels/user_delivery_windows';
const evening = { from: '17:00', to: '22:30' };

async function newProject(): Promise<TestProject> {
  made += 1;
  project = await service.createProject(`windows ${made}`);
  return project;
}

async function eventsOf(type: string): Promise<{ user_ids: string[] | null; details: unknown }[]> {
  return service.context.db.query(
    sql('', 'select user_ids, details from events where project_id = $1 and type = $2 order by id'),
    [project.id, type],
  );
}

describe('saving', () => {
  it("keeps the project's windows, and tells it once", async () => {
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

  it("keeps a user's own, apart from everybody else's", async () => {
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

  it('names everything that is wrong, and keeps what was there', async () => {
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
      "Param 'channels.1.channel' names sms again, after channels.0: give each channel once",
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

  it('takes windows and the word critical with a category', async () => {
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
