import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { GRACE_MS, purgeUsers } from '../../src/domain/after/erasure/purge-users.ts';
import { unpackJson } from '../../src/lib/packed-json.ts';
import { openSocket, openStream, openStreamSocket, Refused } from '../support/realtime.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';

let service: TestService;
let project: TestProject;
let laterMs = 0;
const clock = { now: () => Date.now() + laterMs };

beforeAll(async () => {
  service = await startTestService({ clock });
  project = service.project;
});
afterAll(() => service?.stop());

const create = async (member: object, of = project): Promise<string> =>
  (await of.call('PUT', '/users', member)).body.id;
const remove = async (id: string, of = project) => (await of.call('DELETE', `/users/${id}`)).status;
const isThere = async (id: string, of = project) => (await of.call('GET', `/users/${id}`)).status === 200;
const send = async (recipients: object[], more: object = {}) => {
  const { status, body } = await project.call('POST', '/broadcasts', { title: 'Hello', recipients, ...more });
  expect(status).toBe(201);
  return processed(project.call, body.id);
};
const eventsOf = async (userId: string): Promise<string[]> =>
  (
    await service.rows<{ type: string }>(
      'select type from events where user_ids @> array[$1::uuid] order by id',
      [userId],
    )
  ).map(({ type }) => type);
/** Erases all deleted users, as happens a week later. */
async function purgeAll(): Promise<void> {
  const later = { now: () => clock.now() + GRACE_MS };
  while (await purgeUsers({ ...service.context, clock: later }));
}

describe('deleting a user', () => {
  test('hides it at once everywhere, and records an event', async () => {
    const id = await create({ external_id: 'hidden', email: 'hidden@example.com' });
    expect(await project.call('DELETE', `/users/${id}`)).toMatchObject({ status: 204, body: undefined });
    expect(await isThere(id)).toBe(false);
    for (const query of ['hidden', 'hidden@', '']) {
      const { body } = await project.call('GET', `/users?query=${query}`);
      expect(body.data.map((user: { id: string }) => user.id)).not.toContain(id);
    }
    expect((await project.call('GET', `/users/${id}/channels/teams/tokens`)).status).toBe(404);
    expect(await eventsOf(id)).toEqual(['user.created', 'user.deleted']);
  });

  test('is a 404 for a deleted or unknown user, and for one of another project', async () => {
    const id = await create({ external_id: 'twice' });
    expect([await remove(id), await remove(id), await remove(id.toUpperCase())]).toEqual([204, 404, 404]);
    const other = await service.createProject('other');
    const theirs = await create({ external_id: 'theirs' }, other);
    expect(await remove(theirs)).toBe(404);
    expect(await isThere(theirs, other)).toBe(true);
    expect((await project.call('DELETE', '/users/nonsense')).body.errors[0].code).toBe('invalid_id');
    expect((await project.as('twice')('DELETE', `/users/${theirs}`)).status).toBe(403);
  });

  test('twenty concurrent requests delete it once', async () => {
    const id = await create({ external_id: 'crowd' });
    const responses = await Promise.all(Array.from({ length: 20 }, () => remove(id)));
    expect(responses.toSorted()).toEqual([204, ...Array(19).fill(404)]);
    expect(await eventsOf(id)).toEqual(['user.created', 'user.deleted']);
  });

  test('closes its sockets and streams, and no others', async () => {
    const [deleted, stays] = ['closing', 'staying'].map((name) => project.as(name));
    const open = async (as: typeof deleted) => {
      const token = randomBytes(32).toString('hex');
      expect((await as?.('PUT', '/channels/in_app/inbox/tokens', { token }))?.status).toBe(200);
      const url = `${service.address.replace('http', 'ws')}/?api_key=${project.apiKey}&token=${token}`;
      const client = await openSocket(url);
      onTestFinished(() => client.socket.terminate());
      return { ...client, url };
    };
    const [socket, other] = [await open(deleted), await open(stays)];
    const stream = await openStream(`${service.address}/v2/notifications/stream`, {
      jwt: project.userJwt({ user_external_id: 'closing' }),
    });
    onTestFinished(() => stream.source.close());
    const ended = new Promise<void>((resolve) => stream.source.addEventListener('error', () => resolve()));
    const id = await create({ external_id: 'closing' });
    expect(await remove(id)).toBe(204);
    expect(await socket.closed).toEqual({ code: 4004, reason: 'the user was deleted' });
    await ended;
    stream.source.close();
    await send([{ external_id: 'staying' }]);
    await until(
      () => other.frames.length,
      (frames) => frames === 1,
    );
    // A new connection is a request of the user.
    const again = await openSocket(socket.url);
    onTestFinished(() => again.socket.terminate());
    expect(await isThere(id)).toBe(true);
    await send([{ external_id: 'closing' }]);
    await until(
      () => again.frames.length,
      (frames) => frames === 1,
    );
    expect((await eventsOf(id)).filter((type) => type === 'user.restored')).toHaveLength(1);
  });
});

describe('a stream that resumes', () => {
  const streamUrl = () => `${service.address}/v2/notifications/stream`;
  const resumed = (jwt: string, method = 'GET') =>
    fetch(streamUrl(), {
      method,
      headers: { authorization: `Bearer ${jwt}`, 'last-event-id': '0' },
    });
  const closedSocket = async (jwt: string) =>
    (await openStreamSocket(service.address, { jwt, lastEventId: '0' })).closed;

  test('does not restore a deleted user', async () => {
    const id = await create({ external_id: 'stays away' });
    expect(await remove(id)).toBe(204);
    const jwt = project.userJwt({ user_external_id: 'stays away' });
    const response = await resumed(jwt);
    expect(response.status).toBe(410);
    expect(await response.json()).toMatchObject({ errors: [{ code: 'user_deleted' }] });
    expect((await resumed(jwt, 'HEAD')).status).toBe(410);
    expect(await closedSocket(jwt)).toEqual({ code: 4004, reason: 'the user was deleted' });
    expect(await isThere(id)).toBe(false);
  });

  test('continues for a user that the project has restored', async () => {
    const id = await create({ external_id: 'back' });
    expect(await remove(id)).toBe(204);
    expect(await create({ external_id: 'back' })).toBe(id);
    expect((await resumed(project.userJwt({ user_external_id: 'back' }), 'HEAD')).status).toBe(200);
  });

  test('ends in a client that reconnects by itself after its user was deleted', async () => {
    const id = await create({ external_id: 'following' });
    const stream = await openStream(streamUrl(), {
      jwt: project.userJwt({ user_external_id: 'following' }),
    });
    onTestFinished(() => stream.source.close());
    expect(await remove(id)).toBe(204);
    await expect.poll(() => stream.source.readyState, { timeout: 15_000 }).toBe(2);
    expect(await isThere(id)).toBe(false);
  });
});

describe('a broadcast that names a deleted user', () => {
  test('reaches the others, and reports the recipient that it did not reach', async () => {
    const id = await create({ external_id: 'refused', first_name: 'Ada' });
    await remove(id);
    const sent = await send([
      { external_id: 'reached' },
      { external_id: 'refused', first_name: 'Changed', email: 'new@example.com' },
    ]);
    expect(sent.status).toEqual({
      status: 'processed',
      summary: { total: 2, failures: 1, pending: 0 },
      errors: [
        {
          message: 'recipients.1: this user is deleted: restore it with PUT /users and the same identity',
        },
      ],
    });
    expect(await service.rows('select from notifications where user_id = $1', [id])).toHaveLength(0);
    expect(await isThere(id)).toBe(false);
    // The details that it has about the user are not stored either.
    const { body } = await project.call('PUT', '/users', { external_id: 'refused' });
    expect(body).toMatchObject({ id, first_name: 'Ada', email: null, last_notified_at: null });
    expect((await send([{ external_id: 'refused' }])).status.summary).toEqual({
      total: 1,
      failures: 0,
      pending: 0,
    });
  });

  test('does not restore the user, whichever name it uses', async () => {
    const id = await create({ email: 'by-address@example.com' });
    await remove(id);
    const { status } = await send([{ email: 'By-Address@example.com' }]);
    expect(status.summary).toEqual({ total: 1, failures: 1, pending: 0 });
    expect(await isThere(id)).toBe(false);
  });

  test('that was queued for later is skipped when it is due', async () => {
    const of = await service.createProject('delayed');
    await of.call('PUT', '/channels', {
      key: 'delayed',
      channels: [{ channel: 'in_app', delay: 3_600 }],
    });
    const id = await create({ external_id: 'later' }, of);
    const { body } = await of.call('POST', '/broadcasts', {
      title: 'Later',
      category: 'delayed',
      recipients: [{ external_id: 'later' }],
    });
    await until(
      () => service.rows('select from jobs where kind = $1 and due_at is not null', ['deliver']),
      (jobs) => jobs.length === 1,
    );
    expect(await remove(id, of)).toBe(204);
    await service.rows('update jobs set due_at = now() where due_at is not null');
    laterMs += 3_600_000;
    await processed(of.call, body.id);
    const states = await service.rows('select channel, state, code from deliveries where user_id = $1', [id]);
    expect(states).toEqual([{ channel: 'in_app', state: 'skipped', code: 'user_deleted' }]);
    expect((await of.as('later')('GET', '/notifications')).body.data).toEqual([]);
  });
});

describe('a deleted user', () => {
  test('is restored by a request of the user, once, even if many are concurrent', async () => {
    for (const claims of [{ user_external_id: 'returns' }, { user_email: 'returns@example.com' }]) {
      const id = await create({ external_id: 'returns', email: 'returns@example.com' });
      await send([{ external_id: 'returns' }]);
      await remove(id);
      const before = (await eventsOf(id)).length;
      const jwt = project.userJwt(claims);
      const responses = await Promise.all(
        Array.from({ length: 20 }, () =>
          fetch(`${service.address}/v2/notifications`, { headers: { authorization: `Bearer ${jwt}` } }),
        ),
      );
      expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
      expect((await eventsOf(id)).slice(before)).toEqual(['user.restored']);
      const { body } = await project.call('GET', `/users/${id}`);
      expect(body).toMatchObject({ external_id: 'returns', email: 'returns@example.com' });
      expect(body.last_notified_at).not.toBeNull();
    }
  });

  test('is restored by an upsert of the project, but not by a rejected one', async () => {
    const id = await create({ external_id: 'upserted' });
    await create({ external_id: 'owner', email: 'owned@example.com' });
    await remove(id);
    const refused = await project.call('PUT', '/users', {
      external_id: 'upserted',
      email: 'owned@example.com',
    });
    expect(refused.status).toBe(422);
    expect(await isThere(id)).toBe(false);
    const responses = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        project.call('PUT', '/users', { external_id: 'upserted', first_name: `${index}` }),
      ),
    );
    expect(responses.map(({ status, body }) => [status, body.id])).toEqual(responses.map(() => [200, id]));
    expect((await eventsOf(id)).filter((type) => type === 'user.restored')).toHaveLength(1);
  });

  test('keeps no address from a user who signs up again under another id', async () => {
    const before = await create({ external_id: 'before', email: 'person@example.com' });
    await remove(before);
    const { status, body } = await project.call('PUT', '/users', {
      external_id: 'after',
      email: 'Person@example.com',
    });
    expect(status).toBe(200);
    expect(body.id).not.toBe(before);
    expect((await send([{ email: 'person@example.com' }])).status.summary.failures).toBe(0);
    const restored = await project.call('PUT', '/users', { external_id: 'before' });
    expect(restored.body).toMatchObject({ id: before, email: null });
  });
});

describe('seven days later', () => {
  test('no table has a byte of personal data', async () => {
    const of = await service.createProject('purged');
    const canary = (what: string) => `canary-${what}-${randomBytes(4).toString('hex')}`;
    const address = `${canary('mail')}@example.com`;
    const former = `${canary('former')}@example.com`;
    const later = `${canary('later')}@example.com`;
    const externalId = canary('id');
    const phone = '+1500555987123';
    const person = {
      external_id: externalId,
      email: address,
      first_name: canary('first'),
      last_name: canary('last'),
      custom_attributes: { secret: canary('attribute') },
      phone_numbers: [phone],
    };
    const post = async (recipients: object[]) => {
      const { body } = await of.call('POST', '/broadcasts', { title: 'T', recipients });
      return processed(of.call, body.id);
    };
    const id = await create({ ...person, email: former }, of);
    const other =
      '{"external_id":"stays","custom_attributes":{"big":12345678901234567890,"exact":1.00000000000000005}}';
    const first = await of.call(
      'POST',
      '/broadcasts',
      `{"title":"T","recipients":[${other},` +
        `${JSON.stringify({ email: former, first_name: person.first_name })}]}`,
    );
    await processed(of.call, first.body.id);
    const second = await post([person, { external_id: 'stays' }, { external_id: externalId }]);
    await post([{ external_id: externalId, first_name: canary('new name') }]);
    const as = of.as(externalId);
    const shown = await as('GET', '/notifications');
    expect(shown.body.data).toHaveLength(3);
    const token = canary('token').padEnd(64, 'x');
    const oauth = { channel_id: canary('channel'), installation_id: canary('installation') };
    expect((await as('PUT', '/channels/in_app/inbox/tokens', { token })).status).toBe(200);
    expect((await as('PUT', '/channels/slack/tokens', { oauth })).status).toBe(200);
    const webhook = { url: `https://example.com/${canary('webhook')}` };
    expect((await as('PUT', '/channels/teams/tokens', { webhook })).status).toBe(200);
    expect(
      (
        await as('PUT', '/channels/user_preferences', {
          categories: [{ key: 'news', channels: [{ name: 'in_app', enabled: false }] }],
        })
      ).status,
    ).toBe(204);
    await service.rows(
      `insert into deliveries
      select user_id, id, 'email', broadcast_id, 'failed', 1, null, 'smtp', $2, '550', $3, now(), now()
      from notifications where user_id = $1 limit 1`,
      [id, canary('provider'), `${address} is unknown`],
    );
    await service.rows(
      `update deliveries
      set targets = json_build_object(
        'accepted', 1, 'gone', 0, 'failed', 1, 'provider_ids', json_build_array($2::text)
      )
      where user_id = $1`,
      [id, canary('target')],
    );
    expect(await remove(id, of)).toBe(204);
    const refused = await post([{ ...person, email: later }, { external_id: 'stays' }]);
    expect(refused.status.summary.failures).toBe(1);

    // Sealed and hashed values are found by their user.
    expect((await dump()).join('\n')).toContain('canary-');
    const owned = await tablesOfUsers();
    await purgeUsers({ ...service.context, clock: { now: () => clock.now() + GRACE_MS - 3_600_000 } });
    expect(await service.rows('select from users where id = $1', [id])).toHaveLength(1);
    await purgeAll();

    const left = (await dump()).filter((text) => text.includes('canary-') || text.includes(phone.slice(1)));
    expect(left).toEqual([]);
    // The outcomes of its deliveries remain in the summaries of the broadcasts.
    for (const { table, column } of owned.filter((one) => one.table !== 'deliveries'))
      expect([table, await service.rows(`select from ${table} where ${column} = $1`, [id])]).toEqual([
        table,
        [],
      ]);
    expect(
      await service.rows(
        'select state, code, reason, provider_id, targets::text from deliveries where user_id = $1',
        [id],
      ),
    ).toEqual([
      {
        state: 'failed',
        code: '550',
        reason: null,
        provider_id: null,
        targets: '{"gone": 0, "failed": 1, "accepted": 1, "provider_ids": []}',
      },
    ]);
    expect(await service.rows(`select from token_owners where user_id = $1`, [id])).toEqual([]);
    // The bare id remains in events and in the tombstone of the user.
    const deleted = { external_id: `deleted:${id}` };
    const recipients = async (broadcast: string) =>
      (await of.call('GET', `/broadcasts/${broadcast}`)).body.recipients;
    expect(await recipients(second.id)).toEqual([deleted, { external_id: 'stays' }, deleted]);
    expect(await recipients(refused.id)).toEqual([deleted, { external_id: 'stays' }]);
    const [stored] = await service.rows<{ recipients: Buffer }>(
      'select recipients from broadcasts where id = $1',
      [first.body.id],
    );
    expect(unpackJson(stored?.recipients ?? Buffer.of(0))).toBe(`[${other},{"external_id":"deleted:${id}"}]`);
    expect(await eventsOf(id)).toEqual(
      expect.arrayContaining(['user.created', 'token.saved', 'user.deleted']),
    );
    expect(
      (await of.call('GET', '/events?type=token.saved')).body.data.map(
        (event: { context: object }) => event.context,
      ),
    ).toContainEqual({ user_id: id, channel: 'slack' });
  });

  test('the same identity is a new user, and the old token opens nothing', async () => {
    const id = await create({ external_id: 'reborn' });
    const token = randomBytes(32).toString('hex');
    await project.as('reborn')('PUT', '/channels/in_app/inbox/tokens', { token });
    await remove(id);
    await purgeAll();
    const url = `${service.address.replace('http', 'ws')}/?api_key=${project.apiKey}&token=${token}`;
    await expect(openSocket(url)).rejects.toEqual(new Refused(401));
    expect((await send([{ external_id: 'reborn' }])).status.summary.failures).toBe(0);
    const { body } = await project.as('reborn')('GET', '/notifications');
    expect(body.data).toHaveLength(1);
    expect(body.data[0].user_id).not.toBe(id);
  });

  test('an interrupted purge continues, and two nodes share the work', async () => {
    const of = await service.createProject('many');
    const people = Array.from({ length: 60 }, (_, index) => ({ external_id: `many-${index}` }));
    const { body } = await of.call('POST', '/broadcasts', { title: 'T', recipients: people });
    await processed(of.call, body.id);
    const users = await service.rows<{ id: string }>('select id from users where project_id = $1', [of.id]);
    await Promise.all(users.slice(1).map(({ id }) => remove(id, of)));
    const later = { now: () => clock.now() + GRACE_MS };
    await purgeUsers({ ...service.context, clock: later });
    await service.restart();
    await Promise.all([purgeAll(), purgeAll(), purgeAll()]);
    await purgeAll();
    expect(await service.rows('select id from users where project_id = $1', [of.id])).toEqual([
      { id: users[0]?.id },
    ]);
    expect(await service.rows('select from user_keys where project_id = $1', [of.id])).toHaveLength(1);
    const { recipients } = (await of.call('GET', `/broadcasts/${body.id}`)).body;
    expect(new Set(recipients.map((one: { external_id: string }) => one.external_id)).size).toBe(60);
    expect(
      recipients.filter((one: { external_id: string }) => one.external_id.startsWith('deleted:')),
    ).toHaveLength(59);
    expect(await service.rows('select from notifications where broadcast_id = $1', [body.id])).toHaveLength(
      1,
    );
  });
});

/** Every row of every table as text, with packed values unpacked. */
async function dump(): Promise<string[]> {
  const tables = await service.rows<{ name: string }>(
    `select relname::text as name from pg_class where relnamespace = current_schema()::regnamespace
      and relkind = 'r'`,
  );
  const texts: string[] = [];
  for (const { name } of tables) {
    for (const row of await service.rows(`select * from ${name}`)) {
      const values = Object.entries(row).map(([column, value]) => {
        if (!Buffer.isBuffer(value)) return `${column}=${JSON.stringify(value)}`;
        const packed = name === 'broadcasts' ? unpackJson(value) : value.toString('latin1');
        return `${column}=${packed}`;
      });
      texts.push(`${name}: ${values.join(' ')}`);
    }
  }
  return texts;
}

/** The tables with a column that names a user. A new one has to be purged, too. */
async function tablesOfUsers(): Promise<{ table: string; column: string }[]> {
  const found = await service.rows<{ table: string; column: string }>(
    `select table_name::text as table, column_name::text as column
    from information_schema.columns
    where table_schema = current_schema()
          and not (select relispartition from pg_class where oid = table_name::regclass)
          and (column_name in ('user_id', 'owner_id')
               or (table_name = 'users' and column_name = 'id'))`,
  );
  expect(found.map(({ table }) => table)).toEqual(
    expect.arrayContaining([
      'users',
      'user_keys',
      'tokens',
      'token_owners',
      'preferences',
      'notifications',
      'installations',
    ]),
  );
  return found;
}
