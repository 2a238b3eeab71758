import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createSealer } from '../../src/lib/seal.ts';
import { bringForward, deliveriesOf, devices, installSlack, saveToken } from '../support/all-channels.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';

// Deliveries whose integration or token is sealed with a key that the server does not have, until it gets the
// key.

let service: TestService;
let vendors: Vendors;
let project: TestProject;
let made = 0;
const lost = createSealer([Buffer.alloc(32, 1)]);
const [lostKeyId] = lost.keyIds;

beforeAll(async () => {
  vendors = await startVendors();
  service = await startTestService({ settings: vendors.settings, pollMs: 50 });
});
afterAll(async () => {
  await service?.stop();
  await vendors?.stop();
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`unreadable ${made}`);
  vendors.reset();
});

async function send(user: object = {}): Promise<string> {
  const recipients = [{ external_id: 'ada', ...user }];
  const { status, body } = await project.call('POST', '/broadcasts', { title: 'Hello', recipients });
  expect(status).toBe(201);
  return body.id;
}
const byMail = () => send({ email: 'ada@example.com' });

const COLUMNS = { integrations: 'sealed_config', tokens: 'sealed_data', installations: 'sealed_record' };

/** Loses the key that sealed one row of the project, or all of them. Returns a function that restores it. */
async function loseKey(table: keyof typeof COLUMNS, id?: string): Promise<() => Promise<void>> {
  const column = COLUMNS[table];
  const write = async (values: readonly { id: string; sealed: Buffer }[]) => {
    for (const one of values)
      await service.rows(`update ${table} set ${column} = $3 where project_id = $1 and id::text = $2`, [
        project.id,
        one.id,
        one.sealed,
      ]);
    service.context.bus.publish({ type: 'project_changed', projectId: project.id });
  };
  const rows = await service.rows<{ id: string; sealed: Buffer }>(
    `select id::text as id, ${column} as sealed from ${table}
      where project_id = $1 and ($2::text is null or id::text = $2)`,
    [project.id, id ?? null],
  );
  expect(rows).not.toEqual([]);
  await write(rows.map((row) => ({ id: row.id, sealed: lost.seal('{}', 'lost') })));
  return () => write(rows);
}

/** Waits until one attempt was made and the next is scheduled. */
const retried = (id: string) =>
  until(
    () =>
      service.rows(
        `select 1 from jobs where payload->>'broadcast_id' = $1 and payload->>'back' = 'begun'
            and due_at is not null`,
        [id],
      ),
    (jobs) => jobs.length === 1,
  );

/** Runs all retries at once, until no job is left. */
const ended = (id: string) =>
  until(
    async () => {
      await bringForward(service);
      return service.rows(
        "select 1 from jobs where kind in ('fan_out', 'deliver') and payload->>'broadcast_id' = $1",
        [id],
      );
    },
    (jobs) => jobs.length === 0,
    { everyMs: 50 },
  );

const CONFIG_UNREADABLE = {
  state: 'retrying',
  code: 'config_unreadable',
  reason: expect.stringMatching(
    new RegExp(`^The config of this integration cannot be decrypted: .* the key ${lostKeyId}.*SECRET_KEY`),
  ),
};
const TOKEN_UNREADABLE = {
  state: 'retrying',
  code: 'token_unreadable',
  reason: expect.stringMatching(/^The token cannot be decrypted: .*SECRET_KEY/),
};

describe('a delivery whose only integration cannot be opened', () => {
  test('is planned and retried, and is sent when the key is back', async () => {
    await vendors.setUp(project, ['smtp']);
    const found = await loseKey('integrations');
    const id = await byMail();
    await retried(id);
    expect(await deliveriesOf(service, id)).toMatchObject([{ ...CONFIG_UNREADABLE, provider: 'smtp' }]);
    expect((await project.call('GET', `/broadcasts/${id}`)).body.status).toMatchObject({
      status: 'processed',
      summary: { total: 1, failures: 0, pending: 1 },
    });
    await found();
    await ended(id);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', code: null }]);
    expect(vendors.mail.received).toHaveLength(1);
  });

  test('that became unreadable after the fan-out is retried, and sent when it is saved again', async () => {
    await vendors.setUp(project, ['smtp']);
    vendors.mail.fail({ at: 'rcpt', how: { reply: '451 4.3.0 try again later' } });
    const id = await byMail();
    await retried(id);
    await loseKey('integrations');
    // The next attempt may still have the settings as they were.
    const [delivery] = await until(
      () => bringForward(service).then(() => deliveriesOf(service, id)),
      ([{ code } = {}]) => code === CONFIG_UNREADABLE.code,
    );
    expect(delivery).toMatchObject(CONFIG_UNREADABLE);
    vendors.mail.heal();
    await vendors.setUp(project, ['smtp']);
    await ended(id);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', code: null }]);
  });

  test('expires like any other retried delivery', async () => {
    await vendors.setUp(project, ['smtp']);
    await loseKey('integrations');
    const id = await byMail();
    await retried(id);
    const age = () =>
      service.rows(
        `update jobs
          set due_at = now(), payload = jsonb_set(payload::jsonb, '{first_attempt_ms}', $1::text::jsonb)
          where payload->>'broadcast_id' = $2 and due_at is not null`,
        [String(Date.now() - 24 * 3_600_000 - 1_000), id],
      );
    await until(
      () => age().then(() => deliveriesOf(service, id)),
      ([delivery]) => delivery?.state === 'failed',
      { everyMs: 50 },
    );
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'failed', code: 'expired' }]);
  });

  test('by text message is not marked as sent meanwhile, so it can be retried without limit', async () => {
    await vendors.setUp(project, ['twilio']);
    const found = await loseKey('integrations');
    const id = await send({ phone_numbers: ['+15005550001'] });
    await retried(id);
    await until(
      () => bringForward(service).then(() => deliveriesOf(service, id)),
      ([delivery]) => (delivery?.attempts ?? 0) > 3,
      { everyMs: 50 },
    );
    await found();
    await ended(id);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', code: null }]);
    expect(vendors.phone.requests).toHaveLength(1);
  });

  test("reaches devices, chats and the project's destination once it can be opened", async () => {
    await vendors.setUp(project, ['expo', 'slack', 'teams']);
    await saveToken(project, 'ada', 'mobile_push/expo', { device_token: devices.expo(`a${made}`) });
    const { id: installation_id } = await installSlack(project, vendors, 'ada');
    await saveToken(project, 'ada', 'slack', { oauth: { installation_id, channel_id: 'C0A' } });
    const found = await loseKey('integrations');
    const id = await send();
    await until(
      () => deliveriesOf(service, id),
      (all) => all.length === 3,
    );
    expect(await deliveriesOf(service, id)).toMatchObject(
      ['mobile_push', 'slack', 'teams'].map((channel) => ({ ...CONFIG_UNREADABLE, channel })),
    );
    await found();
    await ended(id);
    expect((await deliveriesOf(service, id)).map(({ state }) => state)).toEqual(['sent', 'sent', 'sent']);
    expect(vendors.expo.messages).toHaveLength(1);
    expect(vendors.slack.posted.map(({ to }) => to)).toEqual(['C0A']);
    expect(vendors.teams.requests.map(({ path }) => path)).toEqual(['/default']);
  });

  test('by a bot with an expired token waits for the credentials of the app', async () => {
    vendors.slack.rotate = 1;
    try {
      await vendors.setUp(project, ['slack']);
      const { id: installation_id } = await installSlack(project, vendors, 'ada');
      await saveToken(project, 'ada', 'slack', { oauth: { installation_id, channel_id: 'C0A' } });
      await loseKey('integrations');
      const id = await send();
      await retried(id);
      expect(await deliveriesOf(service, id)).toMatchObject([CONFIG_UNREADABLE]);
    } finally {
      vendors.slack.rotate = undefined;
    }
  });
});

describe('one of two integrations of a channel cannot be opened', () => {
  const [first, second] = ['0197a3c4-0000-7000-8000-000000000001', '0197a3c4-0000-7000-8000-000000000002'];
  const setUp = async (other: object = {}) => {
    await project.call('PUT', `/integrations/smtp?id=${first}`, vendors.configs.smtp);
    await project.call('PUT', `/integrations/smtp?id=${second}`, { ...vendors.configs.smtp, ...other });
    return loseKey('integrations', first);
  };

  test('the other sends', async () => {
    await setUp();
    const id = await byMail();
    await processed(project.call, id);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', attempts: 1 }]);
  });

  test('and the other is rejected: it is retried over the first when its key is back', async () => {
    const found = await setUp({ password: 'wrong' });
    const id = await byMail();
    await retried(id);
    expect(await deliveriesOf(service, id)).toMatchObject([CONFIG_UNREADABLE]);
    await found();
    await ended(id);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', code: null }]);
  });
});

describe('a token that cannot be opened', () => {
  test('is retried, and the message does not go to the destination of the project', async () => {
    await vendors.setUp(project, ['teams']);
    await saveToken(project, 'ada', 'teams', { webhook: { url: `${vendors.teams.address}/ada` } });
    const found = await loseKey('tokens');
    const id = await send();
    await retried(id);
    expect(await deliveriesOf(service, id)).toMatchObject([TOKEN_UNREADABLE]);
    expect(vendors.teams.requests).toHaveLength(0);
    await found();
    await ended(id);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', code: null }]);
    expect(vendors.teams.requests.map(({ path }) => path)).toEqual(['/ada']);
  });

  test("does not delay the user's other tokens, and is used later", async () => {
    await vendors.setUp(project, ['expo']);
    const [one, other] = [devices.expo(`one${made}`), devices.expo(`other${made}`)];
    const tokenId = await saveToken(project, 'ada', 'mobile_push/expo', { device_token: one });
    await saveToken(project, 'ada', 'mobile_push/expo', { device_token: other });
    const found = await loseKey('tokens', tokenId);
    const id = await send();
    await retried(id);
    expect(vendors.expo.messages.map(({ to }) => to)).toEqual([other]);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', targets: { accepted: 1 } }]);
    await found();
    await ended(id);
    expect(vendors.expo.messages.map(({ to }) => to)).toEqual([other, one]);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', targets: { accepted: 2 } }]);
  });

  test('of a bot, in the record of its installation, is retried as well', async () => {
    await vendors.setUp(project, ['slack']);
    const { id: installation_id } = await installSlack(project, vendors, 'ada');
    await saveToken(project, 'ada', 'slack', { oauth: { installation_id, channel_id: 'C0A' } });
    for (const table of ['tokens', 'installations'] as const) {
      const found = await loseKey(table);
      const id = await send();
      await retried(id);
      expect(await deliveriesOf(service, id)).toMatchObject([
        table === 'tokens' ? TOKEN_UNREADABLE : { state: 'retrying', code: 'installation_unreadable' },
      ]);
      await found();
      await ended(id);
      expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent' }]);
    }
    expect(vendors.slack.posted.map(({ to }) => to)).toEqual(['C0A', 'C0A']);
  });
});

test('web push creates no second key pair while the first cannot be opened', async () => {
  const start = () => project.as('ada')('POST', '/integrations/web_push/installations/start');
  const first = await start();
  expect(first.status).toBe(200);
  const restore = await loseKey('integrations');
  const refused = await start();
  expect([refused.status, refused.body.errors[0].code]).toEqual([503, 'service_unavailable']);
  expect(refused.body.errors[0].message).toContain('SECRET_KEY');
  await restore();
  expect((await start()).body.public_key).toBe(first.body.public_key);
  const { body } = await project.call('GET', '/integrations/web_push');
  expect(body.data).toHaveLength(1);
});
