import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { newId } from '../../src/lib/ids.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { BULK } from '../../src/queue/jobs.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService({ pollMs: 50 });
  project = service.project;
});
afterAll(() => service?.stop());

const FORMATS = { json: 'application/json', ndjson: 'application/x-ndjson', csv: 'text/csv' };

type Format = keyof typeof FORMATS;

const send = (body: string, format: Format = 'json', of: TestProject = project) =>
  of.call('POST', '/users/import', body, { 'content-type': FORMATS[format] });

/** Sends a body, and waits until its import is processed. */
async function importBody(body: string, format: Format = 'json', of: TestProject = project) {
  const response = await send(body, format, of);
  expect([response.status, response.messages]).toEqual([202, []]);
  return processed(response.body.id, of);
}

const importUsers = (users: unknown[], of: TestProject = project) =>
  importBody(JSON.stringify({ users }), 'json', of);

async function processed(id: string, of: TestProject = project) {
  const { body } = await until(
    () => of.call('GET', `/imports/${id}`),
    ({ body }) => body.status === 'processed',
  );
  return body;
}

const user = async (externalId: string, of: TestProject = project) =>
  (await of.call('GET', `/users/external_id:${encodeURIComponent(externalId)}`)).body;

async function eventsOf(id: string) {
  const rows = await service.rows<{ type: string }>(
    'select type from events where $1::uuid = any (user_ids) order by id',
    [id],
  );
  return rows.map(({ type }) => type);
}

describe('an import', () => {
  test('creates and updates users, and counts them', async () => {
    const { body: known } = await project.call('PUT', '/users', {
      external_id: 'known',
      first_name: 'Old',
      last_name: 'Kept',
    });
    const { body: same } = await project.call('PUT', '/users', { external_id: 'same', first_name: 'S' });
    const full = {
      external_id: 'full',
      email: 'Full@import.example',
      first_name: 'Ada',
      last_name: 'Lovelace',
      locale: 'en-GB',
      custom_attributes: { plan: 'pro', nested: { n: 1 } },
      phone_numbers: ['+15005550001', '+15005550002'],
    };
    const done = await importUsers([
      full,
      { external_id: 'known', first_name: 'New', email: 'known@import.example' },
      { external_id: 'same', first_name: 'S' },
    ]);
    expect(done).toEqual({
      id: expect.any(String),
      status: 'processed',
      total: 3,
      done: 3,
      created: 1,
      updated: 1,
      failed: 0,
      failures: [],
      created_at: expect.any(String),
      processed_at: expect.any(String),
    });
    expect(await user('full')).toMatchObject(full);
    expect(await user('known')).toMatchObject({
      id: known.id,
      first_name: 'New',
      last_name: 'Kept',
      email: 'known@import.example',
    });
    expect(await user('same')).toEqual(same);
    expect(await eventsOf(known.id)).toEqual(['user.created', 'user.updated']);
    expect(await eventsOf(same.id)).toEqual(['user.created']);
  });

  const rows = [
    { external_id: 'f-1', email: 'f1@import.example', first_name: 'Ada, "Countess"', last_name: 'L\nM' },
    { external_id: 'f-2', locale: 'de', phone_numbers: ['+15005550001', '+1 (500) 555-0002'] },
    { email: 'f3@import.example', custom_attributes: { plan: 'pro', 'a.b': 'é', list: [1, null] } },
  ];
  const csv = [
    'external_id,email,first_name,last_name,locale,phone_numbers,custom_attributes,custom_attributes.a.b',
    'f-1,f1@import.example,"Ada, ""Countess""","L\nM",,,,',
    'f-2,,,,de,+15005550001; +1 (500) 555-0002',
    ',f3@import.example,,,,,"{""plan"":""pro"",""list"":[1,null]}",é',
  ];
  test.each<[Format, string]>([
    ['json', JSON.stringify({ users: rows })],
    ['ndjson', `\ufeff${rows.map((row) => JSON.stringify(row)).join('\r\n\n')}`],
    ['csv', `\ufeff${csv.join('\r\n')}\r\n\r\n`],
  ])('is the same in %s', async (format, body) => {
    const of = await service.createProject(`in ${format}`);
    expect(await importBody(body, format, of)).toMatchObject({ created: 3, failed: 0 });
    expect(await user('f-1', of)).toMatchObject(rows[0] ?? {});
    expect(await user('f-2', of)).toMatchObject(rows[1] ?? {});
    expect((await of.call('GET', '/users/email:f3@import.example')).body).toMatchObject(rows[2] ?? {});
  });

  test('accepts CSV with semicolons or tabs', async () => {
    const of = await service.createProject('delimiters');
    await importBody('external_id;first_name\nsemicolon;"a;b"\n', 'csv', of);
    await importBody('external_id\tfirst_name\ntab\ta,b\n', 'csv', of);
    expect(await user('semicolon', of)).toMatchObject({ first_name: 'a;b' });
    expect(await user('tab', of)).toMatchObject({ first_name: 'a,b' });
  });

  test('accepts users as they were returned, and does not change them', async () => {
    const { body: before } = await project.call('PUT', '/users', {
      external_id: 'as returned',
      first_name: 'A',
    });
    expect(await importUsers([before])).toMatchObject({ created: 0, updated: 0, failed: 0 });
    expect(await user('as returned')).toEqual(before);
  });

  test('finds users whose identities have quotes, commas or braces', async () => {
    const names = ['"', '\\', 'a","b', '{c}', '{}', 'null', ' d ', "e'f", '\\"', 'g{"h"}', '🙂'];
    const users = names.map((name) => ({ external_id: name }));
    expect(await importUsers(users)).toMatchObject({ created: names.length, updated: 0, failed: 0 });
    expect(await importUsers(users)).toMatchObject({ created: 0, updated: 0, failed: 0 });
  });

  test('of two entries about one user, the later one counts, on any page', async () => {
    const of = await service.createProject('twice');
    const entries = Array.from({ length: 1_500 }, (_, index) => ({
      external_id: `u${index % 700}`,
      first_name: `${index}`,
    }));
    expect(await importUsers(entries, of)).toMatchObject({
      total: 1_500,
      done: 1_500,
      created: 700,
      failed: 0,
    });
    expect(await user('u99', of)).toMatchObject({ first_name: '1499' });
    expect(await user('u100', of)).toMatchObject({ first_name: '800' });
  });

  test('restores deleted users, as PUT /users does', async () => {
    const { body } = await project.call('PUT', '/users', { external_id: 'comes back' });
    await project.call('DELETE', `/users/${body.id}`);
    expect(await importUsers([{ external_id: 'comes back' }])).toMatchObject({ created: 0, updated: 1 });
    expect(await user('comes back')).toMatchObject({ id: body.id });
    expect(await eventsOf(body.id)).toEqual(['user.created', 'user.deleted', 'user.restored']);
  });

  test('frees a former address at once', async () => {
    await importUsers([{ external_id: 'moves', email: 'before@import.example' }]);
    await importUsers([{ external_id: 'moves', email: 'after@import.example' }]);
    const { body } = await project.call('PUT', '/users', { email: 'before@import.example' });
    expect(body.external_id).toBeNull();
  });
});

describe('a user that fails', () => {
  test('is listed with all problems, and does not stop the others', async () => {
    const done = await importUsers([
      { external_id: 'good-1' },
      { external_id: 7, email: 'no address', nick: 1 },
      'text',
      null,
      {},
      { external_id: 'nul', custom_attributes: { 'a\0': '\ud800' } },
      { external_id: 'good-2', email: 'good2@import.example' },
    ]);
    expect(done).toMatchObject({ total: 7, done: 7, created: 2, updated: 0, failed: 5 });
    expect(done.failures.map(({ row }: { row: number }) => row)).toEqual([2, 3, 4, 5, 6]);
    expect(done.failures[0]).toEqual({
      row: 2,
      user: { email: 'no address' },
      errors: [
        { message: "Param '(root)' doesn't allow key: nick" },
        { message: "Param 'external_id' must be a string or null" },
        { message: "Param 'email' must be an e-mail address" },
      ],
    });
    expect(done.failures[1]).toMatchObject({
      user: {},
      errors: [{ message: "Param '(root)' must be an object" }],
    });
    expect(done.failures[3].errors).toEqual([{ message: "Param '(root)' needs an external_id or an email" }]);
    expect(done.failures[4].errors).toHaveLength(2);
    expect(await user('good-2')).toMatchObject({ email: 'good2@import.example' });
  });

  test('is named in NDJSON and CSV', async () => {
    const ndjson = '{"external_id":"nd-1"}\n{"external_id":\n[1]\n{"external_id":"nd-2"}';
    const lines = await importBody(ndjson, 'ndjson');
    expect(lines).toMatchObject({ total: 4, created: 2, failed: 2 });
    expect(lines.failures[0]).toEqual({
      row: 2,
      user: {},
      errors: [{ message: 'The line is not valid JSON' }],
    });
    const csv = 'external_id,email,custom_attributes\nc-1,,[1]\nc-2,x,,more\n,,\nc-3,c3@import.example,{}\n';
    const { failures, created } = await importBody(csv, 'csv');
    expect(created).toBe(1);
    expect(failures).toEqual([
      {
        row: 1,
        user: { external_id: 'c-1' },
        errors: [{ message: "Param 'custom_attributes' must be a JSON object" }],
      },
      {
        row: 2,
        user: { external_id: 'c-2', email: 'x' },
        errors: [
          { message: 'The line has 4 values, and the header 3 columns' },
          { message: "Param 'email' must be an e-mail address" },
        ],
      },
      { row: 3, user: {}, errors: [{ message: "Param '(root)' needs an external_id or an email" }] },
    ]);
  });

  test('changes nothing if its address belongs to another user', async () => {
    await project.call('PUT', '/users', { external_id: 'owner', email: 'owned@import.example' });
    const { body: before } = await project.call('PUT', '/users', { external_id: 'wants', first_name: 'W' });
    const done = await importUsers([
      { external_id: 'wants', email: 'OWNED@import.example', first_name: 'X' },
      { external_id: 'wants-too', email: 'owned@import.example' },
      { external_id: 'fine' },
      { external_id: 'first', email: 'twice@import.example' },
      { external_id: 'second', email: 'twice@import.example' },
    ]);
    expect(done).toMatchObject({ created: 2, updated: 0, failed: 3 });
    const errors = [{ message: "Param 'email' belongs to another user" }];
    expect(done.failures).toMatchObject([
      { row: 1, user: { external_id: 'wants', email: 'OWNED@import.example' }, errors },
      { row: 2, errors },
      { row: 5, errors },
    ]);
    expect(await user('wants')).toEqual(before);
    for (const name of ['wants-too', 'second'])
      expect((await project.call('GET', `/users/external_id:${name}`)).status).toBe(404);
  });

  test('alone is affected by hostile nesting or size', async () => {
    const deep = `{"external_id":"deep","custom_attributes":{"a":${'['.repeat(150)}${']'.repeat(150)}}}`;
    const wide = `{"external_id":"wide","custom_attributes":{"a":[${'0,'.repeat(20_000)}0]}}`;
    const body = [deep, wide, '{"external_id":"after hostile"}'].join('\n');
    expect(await importBody(body, 'ndjson')).toMatchObject({ created: 1, failed: 2 });
  });
});

test('10,000 users are imported once, although the server restarts meanwhile', async () => {
  const of = await service.createProject('many');
  const users = Array.from({ length: 10_000 }, (_, index) => ({
    external_id: `m${index}`,
    email: index % 100 === 7 ? 'x' : `m${index}@import.example`,
    last_name: `${index}`,
  }));
  const { body } = await send(JSON.stringify({ users }), 'json', of);
  await until(
    () => of.call('GET', `/imports/${body.id}`),
    (response) => response.body.done > 0,
  );
  await service.restart();
  const done = await processed(body.id, of);
  expect(done).toMatchObject({ total: 10_000, done: 10_000, created: 9_900, updated: 0, failed: 100 });
  expect(done.failures.map(({ row }: { row: number }) => row)).toEqual(
    Array.from({ length: 100 }, (_, index) => index * 100 + 8),
  );
  const [counts] = await service.rows(
    `select (select count(*)::int from users where project_id = $1) as users,
        (select sum(cardinality(user_ids))::int from events where project_id = $1 and type = 'user.created')
          as events`,
    [of.id],
  );
  expect(counts).toEqual({ users: 9_900, events: 9_900 });
});

// Longer than any test waits.
const NEVER_MS = 3_600_000;
test('an import does not wait until the worker polls', async ({ onTestFinished }) => {
  const patient = await startTestService({ pollMs: NEVER_MS });
  onTestFinished(patient.stop);
  for (const [name, headers] of [
    ['plain', {}],
    ['keyed', { 'idempotency-key': newId() }],
  ] as const) {
    const sent = await patient.project.call(
      'POST',
      '/users/import',
      { users: [{ external_id: name }] },
      headers,
    );
    expect(await processed(sent.body.id, patient.project)).toMatchObject({ created: 1 });
  }
  const sent = await patient.project.v1('POST', '/imports', { import: { users: [{ external_id: 'v1' }] } });
  expect(await processed(sent.body.import.id, patient.project)).toMatchObject({ created: 1 });
});

test('the job of a page that runs once more changes nothing', async () => {
  const of = await service.createProject('repeated');
  const users = Array.from({ length: 2_500 }, (_, index) => ({
    external_id: `r${index}`,
    email: index % 2 ? 'x' : null,
  }));
  const done = await importUsers(users, of);
  expect(done).toMatchObject({ created: 1_250, failed: 1_250 });
  const stored = () =>
    service.rows(
      `select (select array_agg(u order by id) from users u where project_id = $1)::text as users,
          (select array_agg(p order by page) from user_import_pages p where import_id = $2)::text as pages,
          (select array_agg(i) from user_imports i where id = $2)::text as import,
          (select count(*) from events where project_id = $1) as events`,
      [of.id, done.id],
    );
  const before = await stored();
  await service.context.db.transaction((tx) =>
    enqueue(
      tx,
      [0, 1, 2, 2].map((page) => ({
        kind: 'import_users',
        projectId: of.id,
        priority: BULK,
        weight: 1,
        payload: { import_id: done.id, page },
      })),
    ),
  );
  await expect
    .poll(() => service.rows('select count(*)::int from jobs where project_id = $1', [of.id]))
    .toEqual([{ count: 0 }]);
  expect(await stored()).toEqual(before);
});

test('the users of a processed import are erased, and after seven days the failures too', async () => {
  const { id } = await importUsers([
    { external_id: 'erased one', email: 'erased@import.example' },
    { external_id: 'failed one', email: 'x' },
  ]);
  const stored = () =>
    service.rows<{ rows: Buffer | null; failures: Buffer | null }>(
      'select rows, failures from user_import_pages where import_id = $1',
      [id],
    );
  expect(await stored()).toEqual([{ rows: null, failures: expect.any(Buffer) }]);
  const purge = (days: number) => {
    const now = () => Date.now() + days * 24 * 3_600_000;
    return purgeExpired({ ...service.context, clock: { now } }, new AbortController().signal);
  };
  await purge(6);
  expect((await project.call('GET', `/imports/${id}`)).body.failures).toHaveLength(1);
  await purge(8);
  expect((await project.call('GET', `/imports/${id}`)).status).toBe(404);
  expect(await stored()).toEqual([]);
});

describe('a body is rejected', () => {
  const many = Array.from({ length: 10_001 }, (_, index) => index);
  test.each<[string, Format, string, number, string]>([
    ['invalid JSON', 'json', '{"users":[', 400, 'is not valid JSON'],
    ['no member users', 'json', '{}', 422, "Param 'users' is missing"],
    ['users that are no list', 'json', '{"users":{}}', 422, "Param 'users' must be an array"],
    ['another member', 'json', '{"users":[{}],"x":1}', 422, "doesn't allow key: x"],
    ['an empty list', 'json', '{"users":[]}', 422, "Param 'users' must have at least 1 item"],
    ['no line', 'ndjson', '\n\n', 422, "Param 'users' must have at least 1 item"],
    ['no record', 'csv', 'email\n', 422, "Param 'users' must have at least 1 item"],
    ['10,001 users', 'json', JSON.stringify({ users: many }), 422, "'users' must have at most 10000 items"],
    ['10,001 lines', 'ndjson', many.join('\n'), 422, "'users' must have at most 10000 items"],
    ['10,001 records', 'csv', `email\n${many.join('\n')}`, 422, "'users' must have at most 10000 items"],
    ['a million values', 'json', `{"users":[${'[],'.repeat(500_001)}0]}`, 413, 'keys and values'],
    ['deep nesting', 'json', `{"users":[${'['.repeat(200)}`, 422, 'nested too deeply'],
    ['an unknown column', 'csv', 'email,nick\n', 422, 'unknown column "nick"'],
    ['a column twice', 'csv', 'email,email\n', 422, 'column "email" twice'],
    ['no column of identities', 'csv', 'first_name\n', 422, 'needs a column external_id or email'],
    ['an open quote', 'csv', 'email\n"x\n', 422, 'The CSV is not valid'],
    ['many columns', 'csv', 'email,'.repeat(300), 422, 'more than 200 columns'],
    ['a long header', 'csv', ','.repeat(1_000_000), 422, 'header of the CSV has more than 100000 bytes'],
  ])('with %s', async (_what, format, body, status, message) => {
    const response = await send(body, format);
    expect([response.status, response.messages.join()]).toEqual([status, expect.stringContaining(message)]);
  });

  test('with a problem in a long value, which is not repeated', async () => {
    const { status, text } = await send(`email\n${'x'.repeat(1_000_000)}"\n`, 'csv');
    expect([status, text.length < 1_000]).toEqual([422, true]);
  });

  test('in another encoding or type, over 10 MiB, or missing', async () => {
    const request = (raw: Buffer | string, type: string) =>
      service.request('POST', '/v2/users/import', {
        token: project.jwt,
        raw,
        headers: { 'content-type': type },
      });
    expect((await request(Buffer.from('email\n\xff', 'latin1'), 'text/csv')).status).toBe(400);
    expect((await request(' '.repeat(10 * 2 ** 20 + 1), 'text/csv')).status).toBe(413);
    expect((await request('email\n', 'text/plain')).status).toBe(415);
    expect((await request('', 'text/csv')).status).toBe(422);
    expect((await project.call('POST', '/users/import')).status).toBe(422);
    const other = await project.call('PUT', '/users', 'email\n', { 'content-type': 'text/csv' });
    expect(other.codes).toEqual(['unsupported_media_type']);
  });
});

test('the examples of the guide run', async ({ onTestFinished }) => {
  const guide = await readFile(new URL('../../../docs/guides/importing-users.md', import.meta.url), 'utf8');
  const examples = [...guide.matchAll(/^```sh\n(.*?)^```/gms)].map(([, text]) => text);
  expect(examples.join('').match(/\bcurl\b/g)).toHaveLength(7);
  const of = await service.createProject('guide');
  await importUsers([{ external_id: 'ada' }], of);
  const folder = await mkdtemp(join(tmpdir(), 'belfry-guide-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const script = ['set -euo pipefail', 'curl() { command curl --fail "$@"; }', ...examples].join('\n');
  await promisify(execFile)('bash', ['-c', script], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      BELFRY: `${service.address}/v2`,
      AUTH: `Authorization: Bearer ${of.jwt}`,
      JSON: 'Content-Type: application/json',
    },
  });
  const csv = await readFile(join(folder, 'users.csv'), 'utf8');
  expect(csv.split('\r\n')[1]).toMatch(/^[\w-]+,ada,/);
  expect(JSON.parse(await readFile(join(folder, 'ada.json'), 'utf8'))).toMatchObject({
    user: { external_id: 'ada' },
  });
});

test('the same Idempotency-Key imports once', async () => {
  const of = await service.createProject('keyed');
  const headers = { 'content-type': 'text/csv', 'idempotency-key': newId() };
  const once = await of.call('POST', '/users/import', 'external_id\nkeyed\n', headers);
  const again = await of.call('POST', '/users/import', 'external_id\nkeyed\n', headers);
  expect([once.status, again.status, again.body.id]).toEqual([202, 202, once.body.id]);
  const other = await of.call('POST', '/users/import', 'external_id\nother\n', headers);
  expect(other.status).toBe(409);
  expect(await processed(once.body.id, of)).toMatchObject({ total: 1, created: 1 });
});

test('another project, and a user, cannot see an import', async () => {
  const { id } = await importUsers([{ external_id: 'mine' }]);
  const other = await service.createProject('curious');
  expect((await other.call('GET', `/imports/${id}`)).codes).toEqual(['not_found']);
  expect((await project.as('mine')('GET', `/imports/${id}`)).status).toBe(403);
  expect((await project.as('mine')('POST', '/users/import', { users: [] })).status).toBe(403);
  expect((await project.call('GET', `/imports/${newId()}`)).codes).toEqual(['not_found']);
});
