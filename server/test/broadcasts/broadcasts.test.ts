import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { pathOfPage } from '../support/pages.ts';
import {
  type ApiResponse,
  processed,
  startTestService,
  type TestService,
  until,
} from '../support/service.ts';
import { STORED_EVENTS } from '../support/stored-events.ts';

let service: TestService;
let call: TestService['project']['call'];

beforeAll(async () => {
  service = await startTestService();
  call = service.project.call;
});
afterAll(() => service.stop());

const send = (body: object, headers?: Record<string, string>) => call('POST', '/broadcasts', body, headers);

async function count(text: string, values: unknown[] = []): Promise<number> {
  const [row] = await service.context.db.query<{ count: number }>(sql('', text), values);
  return row?.count ?? -1;
}

const notificationsOf = (broadcastId: string) =>
  count('select count(*) from notifications where broadcast_id = $1', [broadcastId]);

describe('POST /broadcasts', () => {
  test('POST returns 201 with every member of the contract, and GET adds the outcome', async () => {
    const body = {
      title: 'Your order is on its way',
      content: '<b>Tomorrow</b>',
      action_url: 'https://shop.example/orders/1',
      category: 'orders.shipped-2_a/b:c',
      topic: 'order:1',
      custom_attributes: { order: { id: 1, items: ['a', 'b'] } },
      recipients: [
        {
          external_id: 'full-1',
          email: 'full@example.com',
          first_name: 'Ada',
          last_name: null,
          locale: 'en-GB',
          custom_attributes: { plan: 'pro' },
          phone_numbers: ['+15005550001'],
        },
        { email: 'other@example.com' },
      ],
      overrides: {
        channels: { in_app: { title: 'In app' }, email: { action_url: null } },
        providers: { ses: { x: [1] } },
      },
    };
    const response = await send(body);
    expect(response.status).toBe(201);
    const { id, created_at, status, ...rest } = response.body;
    expect(rest).toEqual({ ...body, send_at: null, cancelled_at: null });
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(Math.abs(Date.parse(created_at) - Date.now())).toBeLessThan(60_000);
    expect(status).toEqual({
      status: 'enqueued',
      summary: { total: 2, failures: 0, pending: 0 },
      errors: null,
    });
    expect(await processed(call, id)).toEqual({
      ...response.body,
      status: { status: 'processed', summary: { total: 2, failures: 0, pending: 0 }, errors: null },
    });
    expect(await notificationsOf(id)).toBe(2);
  });

  test('numbers in custom attributes are returned as written, and reach the inbox as written', async () => {
    const attributes = '{"order": 12345678901234567890,\n"rate":\t0.10000000000000000001, "text": "a\\nb"}';
    const overrides = '{"channels":{"in_app":{"title":"In the inbox"}}}';
    const recipients = '[{"external_id":"exact"}]';
    const raw =
      `{"title":"Exact","custom_attributes":${attributes},` +
      `"recipients":${recipients},"overrides":${overrides}}`;
    const request = async (path: string, jwt: string, body?: string) => {
      const response = await fetch(`${service.address}/v2${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { authorization: `Bearer ${jwt}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body }),
      });
      return response.text();
    };
    const expected = attributes.replace(/(?<=[:,])\s/g, '');
    const { jwt, userJwt } = service.project;
    for (const body of [raw, `{"broadcast":${raw}}`]) {
      const accepted = await request('/broadcasts', jwt, body);
      expect(accepted).toContain(`"custom_attributes":${expected}`);
      const { id } = JSON.parse(accepted);
      await processed(call, id);
      expect(await request(`/broadcasts/${id}`, jwt)).toContain(`"custom_attributes":${expected}`);
    }
    const inbox = await request('/notifications', userJwt({ user_external_id: 'exact' }));
    expect(inbox.split(`"title":"In the inbox"`)).toHaveLength(3);
    expect(inbox.split(`"custom_attributes":${expected}`)).toHaveLength(3);
  });

  test('members that were not in the request are null in the response', async () => {
    const { body } = await send({ title: 'Bare', recipients: [{ external_id: 'bare' }] });
    expect(body).toMatchObject({
      content: null,
      action_url: null,
      category: null,
      topic: null,
      custom_attributes: null,
      overrides: null,
    });
  });

  test('the body may be wrapped in a broadcast key, as in v1', async () => {
    const response = await send({
      broadcast: { title: 'Wrapped', recipients: [{ external_id: 'wrapped' }] },
    });
    expect(response).toMatchObject({ status: 201, body: { title: 'Wrapped' } });
  });

  test('external_id or email of a recipient may be null', async () => {
    const recipients = [
      { external_id: 'null-mail', email: null, first_name: 'Ada' },
      { external_id: null, email: 'null-id@example.com' },
    ];
    const { status, body } = await send({ title: 'Half a name', recipients });
    expect([status, body.recipients]).toEqual([201, recipients]);
    expect((await processed(call, body.id)).status).toMatchObject({
      summary: { total: 2, failures: 0, pending: 0 },
      errors: null,
    });
    const withoutName = await send({ title: 'No name', recipients: [{ external_id: null, email: null }] });
    expect([withoutName.status, withoutName.body.errors[0].message]).toEqual([
      422,
      "Param 'recipients.0' must have external_id or email",
    ]);
  });

  test('a broadcast that was read can be sent again; read-only members are ignored', async () => {
    const { body: first } = await send({ title: 'Again', recipients: [{ external_id: 'again' }] });
    const read = await processed(call, first.id);
    const { status, body } = await send(read);
    expect([status, body.title, body.status.status]).toEqual([201, 'Again', 'enqueued']);
    expect(body.id).not.toBe(first.id);
  });

  test('recipients may be null and address no user', async () => {
    const response = await send({ title: 'No recipients', recipients: null });
    expect(response).toMatchObject({ status: 201, body: { recipients: null } });
    expect((await processed(call, response.body.id)).status.summary).toEqual({
      total: 0,
      failures: 0,
      pending: 0,
    });
  });

  test('a user named twice, by id and by address, gets one notification', async () => {
    await processed(
      call,
      (await send({ title: 'Known', recipients: [{ external_id: 'twice', email: 'twice@example.com' }] }))
        .body.id,
    );
    const { body } = await send({
      title: 'Twice',
      recipients: [
        { external_id: 'twice' },
        { email: 'TWICE@example.com' },
        { external_id: 'twice', email: 'twice@example.com' },
      ],
    });
    expect((await processed(call, body.id)).status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
    expect(await notificationsOf(body.id)).toBe(1);
  });

  test('an invalid e-mail address is a 422 that names the recipient, even with an external id', async () => {
    // 257 characters: one limit for recipients and for tokens
    const long = `${'a'.repeat(60)}@${'b.'.repeat(98)}com`;
    const { status, body } = await send({
      title: 'Mixed',
      recipients: [
        { external_id: 'good', email: 'good@example.com' },
        { email: 'no address' },
        { external_id: 'id', email: 'nowhere' },
        { email: 'ada@example.com\n' },
        { email: long },
        { external_id: '   ', email: 'victim@example.com' },
        { external_id: 42, email: 'victim@example.com' },
      ],
    });
    expect(status).toBe(422);
    expect(body.errors.map(({ message }: { message: string }) => message)).toEqual([
      "Param 'recipients.1.email' must be an e-mail address",
      "Param 'recipients.2.email' must be an e-mail address",
      "Param 'recipients.3.email' must be an e-mail address",
      "Param 'recipients.4.email' must be an e-mail address",
      "Param 'recipients.4.email' must have at most 254 characters",
      "Param 'recipients.5.external_id' must not be blank, and must not contain the character U+0000 " +
        'or half of a surrogate pair',
      "Param 'recipients.6.external_id' must be a string or null",
    ]);
  });

  test('if external id and address name two users, the id wins and the conflict is reported', async () => {
    const first = await send({
      title: 'Two',
      recipients: [{ external_id: 'c1' }, { external_id: 'c2', email: 'c2@example.com' }],
    });
    await processed(call, first.body.id);
    const { body } = await send({
      title: 'Conflict',
      recipients: [{ external_id: 'c1', email: 'c2@example.com' }],
    });
    const { status } = await processed(call, body.id);
    expect(status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
    expect(status.errors).toEqual([
      { message: 'recipients.0: the e-mail address c2@example.com belongs to another user' },
    ]);
    const found = await count(
      `select count(*) from notifications n join users u on u.id = n.user_id
        where n.broadcast_id = $1 and u.external_id = 'c1'`,
      [body.id],
    );
    expect(found).toBe(1);
  });

  test('details of a recipient are stored: present members replace, absent stay, null clears', async () => {
    const user = async () => {
      const rows = await service.rows<
        Record<string, unknown>
      >(`select first_name, last_name, locale, custom_attributes, phone_numbers, email from users
            where external_id = 'details'`);
      return rows[0];
    };
    const sendDetails = async (recipient: object) =>
      processed(
        call,
        (await send({ title: 'Details', recipients: [{ external_id: 'details', ...recipient }] })).body.id,
      );
    await sendDetails({
      first_name: 'Ada',
      last_name: 'L',
      locale: 'pt-br',
      custom_attributes: { a: 1, b: '\u0007 \ufffe' },
      phone_numbers: ['+15005550001'],
    });
    expect(await user()).toEqual({
      first_name: 'Ada',
      last_name: 'L',
      locale: 'pt-BR',
      custom_attributes: JSON.stringify({ a: 1, b: '\u0007 \ufffe' }),
      phone_numbers: ['+15005550001'],
      email: null,
    });
    await sendDetails({ email: 'Details@example.com', last_name: null, custom_attributes: { c: 3 } });
    expect(await user()).toEqual({
      first_name: 'Ada',
      last_name: null,
      locale: 'pt-BR',
      custom_attributes: '{"c":3}',
      phone_numbers: ['+15005550001'],
      email: 'Details@example.com',
    });
    await sendDetails({ phone_numbers: [], custom_attributes: null, locale: null });
    const cleared = { locale: null, custom_attributes: null, phone_numbers: [] };
    expect(await user()).toMatchObject({ first_name: 'Ada', ...cleared });
  });

  test('100 concurrent broadcasts that name the same new users create each user once', async () => {
    const recipients = Array.from({ length: 20 }, (_, index) => ({
      external_id: `race-${index}`,
      email: `race-${index}@example.com`,
    }));
    const responses = await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        send({
          title: `Race ${index}`,
          recipients: index % 2 ? recipients : [...recipients].reverse().map(({ email }) => ({ email })),
        }),
      ),
    );
    for (const { body } of responses)
      expect((await processed(call, body.id)).status).toMatchObject({
        summary: { total: 20, failures: 0, pending: 0 },
      });
    expect(await count("select count(*) from users where email like 'race-%'")).toBe(20);
    expect(await count("select count(*) from user_keys where value like 'race-%'")).toBe(40);
    const ids = responses.map(({ body }) => body.id);
    expect(
      await count('select count(*) from notifications where broadcast_id = any ($1::uuid[])', [ids]),
    ).toBe(2000);
  });

  test('a thousand recipients, and the same thousand once more', async () => {
    const recipients = Array.from({ length: 1000 }, (_, index) => ({ external_id: `many-${index}` }));
    for (const title of ['New', 'Known']) {
      const { body } = await send({ title, recipients });
      expect((await processed(call, body.id)).status.summary).toEqual({
        total: 1000,
        failures: 0,
        pending: 0,
      });
      expect(await notificationsOf(body.id)).toBe(1000);
    }
  });

  test('a repeated fan-out, as after a restored backup, changes nothing', async () => {
    const recipients = Array.from({ length: 120 }, (_, index) => ({ external_id: `again-${index}` }));
    const ids: string[] = [];
    for (const some of [recipients, recipients.slice(0, 3)]) {
      const { body } = await send({ title: 'Again', recipients: some });
      await processed(call, body.id);
      ids.push(body.id);
    }
    const rows = () =>
      service.rows<{ row: string }>(
        'select n::text as row from notifications n where broadcast_id = any ($1::uuid[]) order by 1',
        [ids],
      );
    const before = await rows();
    await service.rows("update broadcasts set status = 'enqueued', total = 0 where id = any ($1::uuid[])", [
      ids,
    ]);
    await service.rows(
      `insert into jobs (kind, project_id, payload)
          select 'fan_out', project_id, json_build_object('broadcast_id', id) from broadcasts
          where id = any ($1::uuid[])`,
      [ids],
    );
    for (const id of ids) expect((await processed(call, id)).status.summary.failures).toBe(0);
    expect(await rows()).toEqual(before);
    expect(before).toHaveLength(123);
  });

  test('every step records its event, with no row for each user', async () => {
    const { body } = await send({
      title: 'Events',
      recipients: [{ external_id: 'e1' }, { external_id: 'e2' }],
    });
    await processed(call, body.id);
    const rows = await service.rows<{ type: string; users: number | null }>(
      `select type, cardinality(user_ids) as users from ${STORED_EVENTS} where broadcast_id = $1
          order by id, place`,
      [body.id],
    );
    expect(rows).toEqual([
      { type: 'broadcast.created', users: null },
      { type: 'notification.created', users: 2 },
      { type: 'delivery.sent', users: 2 },
      { type: 'broadcast.processed', users: null },
    ]);
  });
});

const ok = { title: 'T', recipients: [{ external_id: '1' }] };

describe('bad input is rejected with all its problems, and nothing is stored', () => {
  const cases: [string, unknown, number, string[]][] = [
    ['broken JSON', '{"title": ', 400, ['invalid_json']],
    ['an empty body', '', 422, ["Param '(root)'"]],
    ['no object', [], 422, ["Param '(root)'"]],
    ['nothing in it', {}, 422, ["Param 'title' is missing", "Param 'recipients' is missing"]],
    ['an empty title', { ...ok, title: '' }, 422, ["Param 'title'"]],
    ['a title of 256 characters', { ...ok, title: 'x'.repeat(256) }, 422, ["Param 'title'"]],
    ['no recipients', { ...ok, recipients: [] }, 422, ["Param 'recipients'"]],
    [
      '1001 recipients',
      { ...ok, recipients: Array.from({ length: 1001 }, (_, id) => ({ external_id: `${id}` })) },
      422,
      ["Param 'recipients'"],
    ],
    ['content that is too long', { ...ok, content: 'x'.repeat(10_485_761) }, 422, ["Param 'content'"]],
    [
      'an address that is too long',
      { ...ok, action_url: `https://x/${'x'.repeat(2048)}` },
      422,
      ["Param 'action_url'"],
    ],
    ['a category with a space', { ...ok, category: 'a b' }, 422, ["Param 'category'"]],
    ['a topic with an umlaut', { ...ok, topic: 'ä' }, 422, ["Param 'topic'"]],
    [
      'unknown keys at every level',
      {
        ...ok,
        foo: 1,
        overrides: { bar: 1, channels: { fax: {} } },
        recipients: [{ external_id: '1', baz: 1 }],
      },
      422,
      [
        "Param '(root)' doesn't allow key: foo",
        "Param 'overrides' doesn't allow key: bar",
        "Param 'overrides.channels' doesn't allow key: fax",
        "Param 'recipients.0' doesn't allow key: baz",
      ],
    ],
    [
      'wrong types',
      { title: 1, content: 2, action_url: [], custom_attributes: [], recipients: {} },
      422,
      [
        "Param 'title'",
        "Param 'content'",
        "Param 'action_url'",
        "Param 'custom_attributes'",
        "Param 'recipients'",
      ],
    ],
    [
      'recipients that have no name',
      { ...ok, recipients: [{}, { first_name: 'x' }] },
      422,
      ["Param 'recipients.0", "Param 'recipients.1"],
    ],
    [
      'an external id with a NUL',
      { ...ok, recipients: [{ external_id: 'a\0b' }] },
      422,
      ["Param 'recipients.0.external_id'"],
    ],
    [
      'a name with half a character',
      { ...ok, recipients: [{ external_id: 'a', first_name: '\ud800' }] },
      422,
      ["Param 'recipients.0.first_name'"],
    ],
    [
      'a phone number in letters',
      { ...ok, recipients: [{ external_id: 'a', phone_numbers: ['call me'] }] },
      422,
      ["Param 'recipients.0.phone_numbers.0'"],
    ],
  ];

  test.each(cases)('%s', async (_name, body, status, messages) => {
    const before = await count('select count(*) from broadcasts');
    const response = await call(
      'POST',
      '/broadcasts',
      typeof body === 'string' ? body : JSON.stringify(body),
    );
    expect(response.status).toBe(status);
    const errors = (response.body.errors as { code: string; message: string }[]).map(
      (error) => `${error.code} ${error.message}`,
    );
    for (const message of messages) expect(errors.join('\n')).toContain(message);
    expect(await count('select count(*) from broadcasts')).toBe(before);
  });

  test('unknown parameters, cookies and brand headers are rejected; HTTP and tracing ones pass', async () => {
    const response = await call('POST', '/broadcasts?dry_run=1&dry_run=2', ok, {
      cookie: 'sid=1',
      'x-service-foo': '1',
      'x-service-api-key': 'k',
    });
    expect(response.status).toBe(422);
    const errors = JSON.stringify(response.body.errors);
    for (const name of ['dry_run', 'sid', 'x-service-foo']) expect(errors).toContain(name);
    expect(errors).not.toContain('x-service-api-key');
    const passing = {
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      'x-forwarded-for': '10.0.0.1',
      'x-datadog-trace-id': '1',
      'x-service-user-hmac': 'x',
    };
    expect((await call('POST', '/broadcasts', ok, passing)).status).toBe(201);
  });

  test('content of exactly 10485760 characters works, even at six bytes a character in JSON', async () => {
    for (const character of ['x', '日', '\u0001']) {
      const content = character.repeat(10_485_760);
      const { status, body } = await send({ ...ok, content });
      expect(status).toBe(201);
      await until(
        () => count("select count(*) from broadcasts where id = $1 and status = 'processed'", [body.id]),
        (done) => done === 1,
      );
      const stored = (await call('GET', `/broadcasts/${body.id}`)).body;
      expect(stored.content === content).toBe(true);
    }
  });

  test('strange strings are returned as they were sent', async () => {
    const strange = {
      title: '\u0007 \ufffe \u202emirror\u202c \u{1f469}\u200d\u{1f680}',
      content: '\u0645\u0631\u062d\u0628\u0627',
      custom_attributes: { 'a\u0001': '\u{10ffff}', constructor: { prototype: 1 }, toString: 'x' },
      recipients: [{ external_id: 'strange', custom_attributes: { hasOwnProperty: 1 } }],
    };
    const { status, body } = await send(strange);
    expect(status).toBe(201);
    expect(await processed(call, body.id)).toMatchObject(strange);
  });

  test('text that no database can store and no vendor accepts is a 422 that names each place', async () => {
    const [nul, high, low] = ['a\u0000b', 'a\ud83d', '\udc00b'];
    const { status, body } = await send({
      title: nul,
      content: high,
      action_url: low,
      custom_attributes: { list: ['fine', nul], [`key ${nul}`]: 1, deep: { er: high } },
      recipients: [{ external_id: 'fine' }, { email: 'b@example.com', custom_attributes: { plan: low } }],
      overrides: {
        channels: { sms: { content: nul } },
        providers: { slack: { text: high, blocks: [{ text: low }] } },
      },
    });
    expect(status).toBe(422);
    const wrong = 'must not contain the character U+0000 or half of a surrogate pair';
    expect(body.errors.map(({ message }: { message: string }) => message)).toEqual([
      `Param 'title' ${wrong}`,
      `Param 'content' ${wrong}`,
      `Param 'action_url' ${wrong}`,
      `Param 'custom_attributes.list.1' ${wrong}`,
      `Param 'custom_attributes' has a key that ${wrong}`,
      `Param 'custom_attributes.deep.er' ${wrong}`,
      `Param 'recipients.1.custom_attributes.plan' ${wrong}`,
      `Param 'overrides.channels.sms.content' ${wrong}`,
      `Param 'overrides.providers.slack.text' ${wrong}`,
      `Param 'overrides.providers.slack.blocks.0.text' ${wrong}`,
    ]);
    for (const escaped of ['\\u0000', '\\ud83d', '\\\\u0000', 'u0000', '\\u0041', '\\ud83d\\ude00']) {
      const raw = `{"title":"${escaped}","recipients":[{"external_id":"escaped"}]}`;
      expect((await call('POST', '/broadcasts', raw)).status, escaped).toBe(
        escaped === '\\u0000' || escaped === '\\ud83d' ? 422 : 201,
      );
    }
  });

  test('recipients are returned as written, and mean what JSON.parse reads', async () => {
    const written =
      String.raw`[ {"external_id":"first","external_id":"wr\u0069tten",` +
      `"custom_attributes":{"recipients":[1],"n":1.0,"__proto__":"]}"}} ]`;
    const raw =
      String.raw`{"recipients":[{"external_id":"shadowed"}],"title":"\"recipients\":[",` +
      String.raw`"r\u0065cipients":${written} ,"topic":"t"}`;
    for (const body of [raw, `{"broadcast":null, "broadcast" : ${raw}}`]) {
      const response = await call('POST', '/broadcasts', body);
      expect(response.status).toBe(201);
      expect(response.body.recipients).toEqual(JSON.parse(written));
      const read = await processed(call, response.body.id);
      expect(read.recipients).toEqual(JSON.parse(written));
      expect(read.status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
    }
    const externalIds = ['first', 'shadowed', 'written'];
    const users = await service.rows<{ external_id: string }>(
      'select external_id from users where external_id = any ($1)',
      [externalIds],
    );
    expect(users).toEqual([{ external_id: 'written' }]);
  });

  test('a __proto__ key is either kept as data or rejected, and changes no prototype', async () => {
    const text =
      '{"title":"T","custom_attributes":{"__proto__":{"polluted":1}},"recipients":[{"external_id":"proto"}]}';
    const response = await call('POST', '/broadcasts', text);
    expect([201, 400, 422]).toContain(response.status);
    if (response.status === 201)
      expect(Object.getOwnPropertyNames(response.body.custom_attributes)).toEqual(['__proto__']);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });
});

describe('permissions', () => {
  test('a broadcast of another project is as unknown as one that does not exist', async () => {
    const other = await service.createProject('other');
    const { body } = await send(ok);
    expect((await other.call('GET', `/broadcasts/${body.id}`)).status).toBe(404);
    expect((await other.call('GET', '/broadcasts')).body.data).toEqual([]);
    expect((await call('GET', '/broadcasts/01890000-0000-7000-8000-000000000000')).status).toBe(404);
    expect((await call('GET', '/broadcasts/nonsense')).status).toBe(400);
  });

  test('a User JWT is rejected', async () => {
    const user = service.project.as('someone');
    for (const response of await Promise.all([user('POST', '/broadcasts', ok), user('GET', '/broadcasts')])) {
      expect(response).toMatchObject({ status: 403, body: { errors: [{ code: 'forbidden' }] } });
    }
  });
});

test('a broadcast that cannot be stored does not affect those accepted in the same batch', async () => {
  const { db } = service.context;
  await db.query(sql('', "alter table broadcasts add constraint poison check (category <> 'poison')"));
  try {
    const keys = Array.from({ length: 40 }, (_, index) =>
      index < 20 ? { 'idempotency-key': `key-${index}` } : {},
    );
    const responses = await Promise.all(
      keys.map((headers, index) =>
        send(
          { title: `Beside ${index}`, category: index % 20 === 7 ? 'poison' : 'fine', recipients: null },
          headers,
        ),
      ),
    );
    expect(responses.map((response) => response.status)).toEqual(
      keys.map((_, index) => (index % 20 === 7 ? 500 : 201)),
    );
    const ids = responses.flatMap((response) => response.body.id ?? []);
    expect(await count('select count(*) from broadcasts where id = any ($1)', [ids])).toBe(38);
  } finally {
    await db.query(sql('', 'alter table broadcasts drop constraint poison'));
  }
});

test('long texts make a job heavy, so that few such jobs are in memory together', async () => {
  const { db } = service.context;
  const weightsOf = (broadcastId: string) =>
    db.query<{ weight: number }>(sql('', "select weight from seen where payload ->> 'broadcast_id' = $1"), [
      broadcastId,
    ]);
  await db.query(sql('', 'create table seen (payload json, weight int)'));
  await db.query(
    sql(
      '',
      `create function see() returns trigger language plpgsql as
      'begin insert into seen values (new.payload, new.weight); return new; end'`,
    ),
  );
  await db.query(sql('', 'create trigger see before insert on jobs for each row execute function see()'));
  try {
    const short = await send({ title: 'Short', recipients: [{ external_id: 'a' }, { external_id: 'b' }] });
    const long = await send({
      title: 'Long',
      content: 'a'.repeat(8_192_000),
      // A known user would need no job.
      recipients: [{ external_id: 'new user' }],
    });
    expect(await weightsOf(short.body.id)).toEqual([{ weight: 2 }]);
    expect(await weightsOf(long.body.id)).toEqual([{ weight: 2001 }]);
  } finally {
    await db.query(sql('', 'drop function see() cascade'));
    await db.query(sql('', 'drop table seen'));
  }
});

describe('GET /broadcasts', () => {
  test('pages through all, newest first, in both directions', async () => {
    const project = await service.createProject('pages');
    const ids: string[] = [];
    for (let index = 0; index < 7; index += 1) {
      ids.unshift((await project.call('POST', '/broadcasts', { ...ok, title: `Page ${index}` })).body.id);
    }
    const forward: string[][] = [];
    let page: ApiResponse = await project.call('GET', '/broadcasts?limit=3');
    for (;;) {
      forward.push(page.body.data.map((one: { id: string }) => one.id));
      if (page.body.links.next === null) break;
      page = await project.call('GET', pathOfPage(page.body.links.next));
    }
    expect(forward).toEqual([ids.slice(0, 3), ids.slice(3, 6), ids.slice(6)]);
    page = await project.call('GET', pathOfPage(page.body.links.prev));
    expect(page.body.data.map((one: { id: string }) => one.id)).toEqual(ids.slice(3, 6));
    page = await project.call('GET', pathOfPage(page.body.links.prev));
    expect(page.body.data.map((one: { id: string }) => one.id)).toEqual(ids.slice(0, 3));
    expect(page.body.links.prev).toBeNull();
    for (const query of ['limit=0', 'limit=101', 'limit=x', 'starting_after=nonsense']) {
      expect((await project.call('GET', `/broadcasts?${query}`)).status).toBe(422);
    }
  });

  test('a page of very long broadcasts is shorter, and its links miss none', async () => {
    const project = await service.createProject('long-broadcasts');
    const sent: string[] = [];
    // The first kind is long only in the response, the second also in the database.
    for (const content of ['a'.repeat(10_000_000), randomBytes(6_000_000).toString('base64')]) {
      for (let count = 0; count < 3; count += 1) {
        const { body } = await project.call('POST', '/broadcasts', {
          title: 'Long',
          content,
          recipients: null,
        });
        sent.unshift(body.id);
      }
    }
    const seen: string[] = [];
    let page: ApiResponse = await project.call('GET', '/broadcasts?limit=100');
    for (;;) {
      expect(page.status).toBe(200);
      expect(page.body.data.length).toBeLessThanOrEqual(3);
      seen.push(...page.body.data.map((one: { id: string }) => one.id));
      if (page.body.links.next === null) break;
      page = await project.call('GET', pathOfPage(page.body.links.next));
    }
    expect(seen).toEqual(sent);
  });
});

describe('Idempotency-Key', () => {
  const key = () => ({ 'idempotency-key': crypto.randomUUID() });

  test('50 concurrent requests with one key create one broadcast and get identical responses', async () => {
    const headers = key();
    const before = await count('select count(*) from broadcasts');
    const responses = await Promise.all(
      Array.from({ length: 50 }, () => send({ ...ok, title: 'Once' }, headers)),
    );
    expect(new Set(responses.map(({ status, body }) => `${status}${JSON.stringify(body)}`)).size).toBe(1);
    expect(responses[0]?.status).toBe(201);
    expect(responses.filter(({ headers }) => headers.get('idempotency-replayed') === 'true')).toHaveLength(
      49,
    );
    expect(await count('select count(*) from broadcasts')).toBe(before + 1);
  });

  test('the same key with another body is a conflict', async () => {
    const headers = key();
    await send(ok, headers);
    expect(await send({ ...ok, title: 'Other' }, headers)).toMatchObject({
      status: 409,
      body: { errors: [{ code: 'idempotency_conflict' }] },
    });
  });

  test('keys belong to a project, and a rejected request leaves its key free', async () => {
    const headers = key();
    expect((await send({ ...ok, title: '' }, headers)).status).toBe(422);
    expect((await send(ok, headers)).status).toBe(201);
    const other = await service.createProject('keys');
    const response = await other.call('POST', '/broadcasts', ok, headers);
    expect(response.status).toBe(201);
    expect(response.headers.get('idempotency-replayed')).toBeNull();
  });
});
