import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exportUsers } from '../../src/domain/people/users/export.ts';
import { newId } from '../../src/lib/ids.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService({ pollMs: 50 });
  project = service.project;
});
afterAll(() => service?.stop());

const ODD = {
  external_id: 'odd, "one"',
  email: 'odd@export.example',
  first_name: ' Ada\nL ',
  last_name: "=cmd|' /C calc'!A0",
  locale: 'zh-Hant-TW',
  phone_numbers: ['+15005550001', '+15005550002'],
  custom_attributes: { plan: 'pro', 'ü;': [1, null, { a: '"' }] },
};

describe('all users', () => {
  test('are streamed as NDJSON, oldest first, and deleted ones are left out', async () => {
    const of = await service.createProject('ndjson');
    const users = [];
    for (const name of ['a', 'b', 'c'])
      users.push((await of.call('PUT', '/users', { ...ODD, external_id: name, email: null })).body);
    await of.call('DELETE', '/users/external_id:b');
    const { status, headers, text } = await of.call('GET', '/users/export');
    expect([status, headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
    expect(text.endsWith('\n')).toBe(true);
    const lines = text.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual([users[0], users[2]]);
  });

  test('of an empty project are nothing, or a header', async () => {
    const of = await service.createProject('empty');
    expect((await of.call('GET', '/users/export')).text).toBe('');
    const { text } = await of.call('GET', '/users/export?format=csv');
    expect(text.split('\r\n')).toEqual([expect.stringMatching(/^id,external_id,email,first_name/), '']);
  });

  test.each(['ndjson', 'csv'])('as %s can be imported elsewhere, and are the same there', async (format) => {
    const from = await service.createProject(`from ${format}`);
    const to = await service.createProject(`to ${format}`);
    await from.call('PUT', '/users', ODD);
    await from.call('PUT', '/users', { email: 'plain@export.example' });
    const { text } = await from.call('GET', `/users/export?format=${format}`);
    const type = format === 'csv' ? 'text/csv' : 'application/x-ndjson';
    const { body } = await to.call('POST', '/users/import', text, { 'content-type': type });
    const done = await until(
      async () => (await to.call('GET', `/imports/${body.id}`)).body,
      (one) => one.status === 'processed',
    );
    expect(done).toMatchObject({ total: 2, created: 2, failures: [] });
    const { body: list } = await to.call('GET', '/users');
    expect(list.data[1]).toMatchObject(ODD);
    expect(list.data[0]).toMatchObject({ external_id: null, email: 'plain@export.example' });
  });

  test('are exported over several pages, also to a client that reads slowly or leaves', async () => {
    const of = await service.createProject('many');
    await service.rows(
      `insert into users (id, project_id, external_id, custom_attributes, created_at, updated_at)
        select ('01900000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, $1, 'm' || i,
          json_build_object('text', repeat('x', 1000)), now(), now()
        from generate_series(1, 12000) i`,
      [of.id],
    );
    const url = `${service.address}/v2/users/export`;
    const headers = { authorization: `Bearer ${of.jwt}` };
    const left = new AbortController();
    const broken = await fetch(url, { headers, signal: left.signal });
    await broken.body?.getReader().read();
    left.abort();
    const { text } = await of.call('GET', '/users/export');
    const lines = text.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line).external_id)).toEqual(
      Array.from({ length: 12_000 }, (_, index) => `m${index + 1}`),
    );
    expect(service.logged.filter((line) => /already sent|"level":50/.test(line))).toEqual([]);
  });

  test('are read in parts of a few megabytes, whatever attributes they have', async () => {
    const of = await service.createProject('large');
    await service.rows(
      `insert into users (id, project_id, external_id, custom_attributes, created_at, updated_at)
        select gen_random_uuid(), $1, 'l' || i, json_build_object('text', repeat('x', 1000000)), now(), now()
        from generate_series(1, 12) i`,
      [of.id],
    );
    const names = new Set<string>();
    for await (const text of exportUsers(service.context.db, of.id, 'ndjson')) {
      expect(text.length).toBeLessThan(6_000_000);
      for (const line of text.trimEnd().split('\n')) names.add(JSON.parse(line).external_id);
    }
    expect(names.size).toBe(12);
  });

  test('rejects another format', async () => {
    expect((await project.call('GET', '/users/export?format=xml')).messages).toEqual([
      "Param 'format' must be one of: ndjson, csv",
    ]);
  });
});

describe('everything about a user', () => {
  test('is exported, without secrets and without other users', async () => {
    const { body: user } = await project.call('PUT', '/users', { ...ODD, external_id: 'whole' });
    await project.call('PATCH', `/users/${user.id}`, { external_id: 'renamed' });
    await project.call('PUT', '/users', { external_id: 'other', email: 'secret@other.example' });
    const as = project.as('renamed');
    const token = randomBytes(32).toString('hex');
    await as('PUT', '/channels/in_app/inbox/tokens', { token });
    await as('PUT', '/channels/user_preferences', {
      categories: [{ key: 'news', channels: [{ name: 'in_app', enabled: false }] }],
      time_zone: 'Europe/Berlin',
      quiet_hours: { from: '22:00', to: '07:00' },
    });
    await as('POST', '/subscriptions', { topic: 'orders/1' });
    const note = 'asked us by phone';
    await project.call('PUT', '/suppressions', { email: ODD.email.toUpperCase(), note });
    await project.call('PUT', '/suppressions', { phone_number: ODD.phone_numbers[1] });
    await project.call('PUT', '/suppressions', { email: 'secret@other.example' });
    const { body: failing } = await project.call('POST', '/users/import', {
      users: [
        { external_id: 'whole', first_name: 7 },
        { external_id: 'other', first_name: 7 },
        { email: ODD.email.toUpperCase(), last_name: 7 },
        { external_id: 'fine' },
      ],
    });
    await until(
      async () => (await project.call('GET', `/imports/${failing.id}`)).body,
      (one) => one.status === 'processed',
    );
    const titles = Array.from({ length: 3 }, (_, index) => `Title ${index}`);
    for (const title of titles) {
      const sent = await project.call('POST', '/broadcasts', {
        title,
        recipients: [{ external_id: 'renamed' }, { external_id: 'other' }],
      });
      await processed(project.call, sent.body.id);
    }
    const { body: inbox } = await as('GET', '/notifications');
    await as('POST', `/notifications/${inbox.data[2].id}/archive`);
    const { status, body, text } = await project.call('GET', '/users/external_id:renamed/export');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      user: { id: user.id, external_id: 'renamed', custom_attributes: ODD.custom_attributes },
      former_identities: [{ kind: 'external_id', value: 'whole' }],
      preferences: {
        categories: [{ key: 'news' }],
        time_zone: 'Europe/Berlin',
        quiet_hours: { from: '22:00', to: '07:00' },
      },
      delivery_windows: { time_zone: 'Europe/Berlin', channels: [] },
      tokens: [{ id: expect.any(String), channel: 'in_app/inbox', discarded_at: null }],
      subscriptions: [{ topic: 'orders/1' }],
      suppressions: [{ email: ODD.email, note }, { phone_number: ODD.phone_numbers[1] }],
      import_failures: [
        { import_id: failing.id, row: 1, user: { external_id: 'whole' }, errors: [{}] },
        {
          import_id: failing.id,
          row: 3,
          errors: [{ message: "Param 'last_name' must be a string or null" }],
        },
      ],
    });
    expect(body.notifications).toMatchObject(
      titles.map((title, index) => ({
        title,
        status: index === 0 ? 'archived' : 'unseen',
        deliveries: [{ channel: 'in_app', state: 'sent' }],
      })),
    );
    expect(body.events.map(({ type }: { type: string }) => type)).toEqual(
      expect.arrayContaining(['token.saved', 'preferences.updated', 'subscription.saved']),
    );
    for (const secret of [token, 'secret@other.example']) expect(text).not.toContain(secret);
  });

  test('is a 404 for unknown, deleted and other projects’ users, and a 403 for a user', async () => {
    const { body } = await project.call('PUT', '/users', { external_id: 'leaving' });
    const other = await service.createProject('curious');
    expect((await other.call('GET', `/users/${body.id}/export`)).codes).toEqual(['not_found']);
    expect((await project.as('leaving')('GET', `/users/${body.id}/export`)).status).toBe(403);
    expect((await project.as('leaving')('GET', '/users/export')).status).toBe(403);
    await project.call('DELETE', `/users/${body.id}`);
    for (const id of [body.id, newId()])
      expect((await project.call('GET', `/users/${id}/export`)).codes).toEqual(['not_found']);
  });
});
