import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { createClient } from 'graphql-ws';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { type Service, startService } from '../../src/app.ts';
import { sql } from '../../src/db/client.ts';
import { newestSchema } from '../../src/db/schema.ts';
import type { Hub } from '../../src/domain/after/realtime/hub.ts';
import { preferencesUrl } from '../../src/domain/ground/links/signed-links.ts';
import { insertCell, sealedCell } from '../../src/domain/setup/cells/cells.ts';
import { assignToCell } from '../../src/domain/setup/cells/directory.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { createLogger } from '../../src/lib/log.ts';
import { type Opened, openCell } from '../../src/open.ts';
import { OpenCells } from '../../src/open-cells.ts';
import { contextIn } from '../support/cells.ts';
import { runCommand } from '../support/cli.ts';
import { createDatabaseOn, createTestDatabase, onServer } from '../support/database.ts';
import { openSocket, openStream, openStreamSocket, titles } from '../support/realtime.ts';
import { caller, processed, projectWith, type TestProject, until } from '../support/service.ts';
import { startThreeCells, type ThreeCells } from '../support/three-cells.ts';
import { withClient } from '../support/with-client.ts';

// No cell has a schema of its own behind a connection pooler.
const isPooled = inject('testPooler') !== undefined;
const TO_ADA = [{ external_id: 'ada' }];
const NAMES = ['near', 'far'] as const;
const CHALLENGE = JSON.stringify({ type: 'url_verification', token: 't', challenge: 'c' });

let cells: ThreeCells;
let service: ThreeCells['service'];
let elsewhere: ThreeCells['elsewhere'];
let settings: ThreeCells['settings'];
let command: ThreeCells['command'];
let createIn: ThreeCells['createIn'];
const projects = {} as Record<(typeof NAMES)[number], TestProject>;

beforeAll(async () => {
  cells = await startThreeCells({ logLevel: 'info' });
  ({ service, elsewhere, settings, command, createIn } = cells);
  for (const cell of NAMES) {
    const made = await command('project', 'create', `of ${cell}`, '--cell', cell);
    const { project_id: id, api_key: apiKey, api_secret: apiSecret, project_jwt: jwt } = made;
    projects[cell] = projectWith(() => service.address, { id, apiKey, apiSecret, jwt });
  }
});
afterAll(() => cells?.stop());

const projectsIn = async (cell: string) =>
  (await contextIn(service, cell).db.query<{ id: string }>(sql('', 'select id from projects'))).map(
    ({ id }) => id,
  );

describe.each(NAMES)('a project in the cell %s', (cell) => {
  let project: TestProject;
  beforeAll(() => {
    project = projects[cell];
  });

  test('lives there alone', async () => {
    expect(await projectsIn(cell)).toEqual([project.id]);
    for (const other of ['public', ...NAMES.filter((name) => name !== cell)])
      expect(await projectsIn(other)).not.toContain(project.id);
  });

  test('is served by both versions of the API, and its jobs run', async () => {
    const sent = await project.call('POST', '/broadcasts', { title: 'Two', recipients: TO_ADA });
    expect(sent.status).toBe(201);
    await processed(project.call, sent.body.id);
    const v1 = await project.v1('POST', '/broadcasts', {
      broadcast: { title: 'One', recipients: TO_ADA },
    });
    expect(v1.status).toBe(201);
    await expect
      .poll(async () => (await project.as('ada')('GET', '/notifications')).body.data.length)
      .toBe(2);
    expect((await project.v1As('ada')('GET', '/notifications')).body.total).toBe(2);
  });

  test('gets frames by every kind of connection', async () => {
    const jwt = project.userJwt({ user_external_id: 'eve' });
    const token = 'b'.repeat(64);
    await project.as('eve')('PUT', '/channels/in_app/inbox/tokens', { token });
    const ws = service.address.replace('http', 'ws');
    const [socket, stream, streamSocket] = [
      await openSocket(`${ws}/?api_key=${project.apiKey}&token=${token}`),
      await openStream(`${service.address}/v2/notifications/stream`, { jwt }),
      await openStreamSocket(service.address, { jwt }),
    ];
    onTestFinished(() => stream.source.close());
    const client = createClient({
      url: `${ws}/graphql`,
      webSocketImpl: WebSocket,
      connectionParams: { Authorization: `Bearer ${jwt}` },
      retryAttempts: 0,
    });
    onTestFinished(async () => void (await client.dispose()));
    const inbox: unknown[] = [];
    client.subscribe(
      { query: 'subscription { inbox { name } }' },
      { next: ({ data }) => inbox.push(data?.inbox), error: (error) => inbox.push(error), complete() {} },
    );
    await until(
      () => openConnections(cell),
      (count) => count === 4,
    );
    await project.call('POST', '/broadcasts', { title: 'Now', recipients: [{ external_id: 'eve' }] });
    for (const { frames } of [socket, stream, streamSocket])
      await expect.poll(() => titles(frames)).toEqual(['Now']);
    await expect.poll(() => inbox).toMatchObject([{ name: expect.any(String) }]);
  });

  test('has links in its messages that work', async () => {
    const context = contextIn(service, cell);
    const { signingKey } = (await context.projects.byId(project.id)) ?? {};
    if (signingKey === undefined) throw new Error('the project does not exist');
    const { body: user } = await project.call('PUT', '/users', { external_id: 'ada' });
    const url = preferencesUrl(context.config, { id: project.id, signingKey }, { userId: user.id });
    const page = await fetch(`${service.address}${new URL(url).pathname}`);
    expect(page.status).toBe(200);
    expect(await page.text()).toContain('<form');
  });

  test('is not found by a credential that another key signed', async () => {
    const forged = projectWith(() => service.address, { ...project, apiSecret: 'sk_wrong' });
    expect((await forged.as('ada')('GET', '/notifications')).codes).toEqual(['jwt_auth_failed']);
    expect((await forged.v1('GET', '/users')).codes).toEqual(['api_secret_is_incorrect']);
    const own = service.project;
    const mixed = await own.v1('GET', '/users', undefined, { 'x-service-api-key': project.apiKey });
    expect(mixed.codes).toEqual(['api_secret_is_incorrect']);
  });

  test('is managed by the commands of projects', async () => {
    const { jti, project_jwt: token } = await command(
      'token',
      'issue',
      '--project',
      project.id,
      '--name',
      'x',
    );
    const list = () => service.request('GET', '/v2/broadcasts', { token });
    expect((await list()).status).toBe(200);
    expect(await command('token', 'list', '--project', `of ${cell}`)).toHaveLength(2);
    await command('token', 'revoke', jti);
    await until(
      async () => (await list()).status,
      (status) => status === 401,
    );
    expect(await command('project', 'limits', `of ${cell}`, '--reads', '1000')).toMatchObject({
      reads: 1000,
    });
  });
});

/** Realtime connections in the hub of a cell. */
function openConnections(cell: string): number {
  const { hub } = contextIn(service, cell) as unknown as { hub: Hub };
  const { socket, stream } = hub.counts();
  return socket + stream;
}

test('webhooks reach the integration that signed them, also if another cell has the same id', async () => {
  const [near, far] = [projects.near, projects.far];
  const id = '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081';
  const secrets = new Map([
    [near, 'near-secret'],
    [far, 'far-secret'],
  ]);
  for (const [project, secret] of secrets) {
    const saved = await project.call('PUT', `/integrations/github?id=${id}`, {
      webhook_signing_secret: secret,
    });
    expect(saved.status).toBe(200);
  }
  for (const [project, secret] of secrets) {
    const body = JSON.stringify({ zen: `of ${secret}` });
    const post = (key: string) =>
      service.request('POST', `/v2/integrations/github/webhooks/incoming/${id}`, {
        raw: body,
        headers: {
          'x-github-event': 'ping',
          'x-github-delivery': secret,
          'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
        },
      });
    expect((await post('another')).codes).toEqual(['invalid_signature']);
    expect((await post(secret)).status).toBe(201);
    expect((await post(secret)).status).toBe(201); // from the cell that is remembered
    const { body: events } = await project.call('GET', '/events?type=integration.received');
    expect(events.data).toMatchObject([{ payload: { zen: `of ${secret}` } }]);
  }
});

test('two nodes serve all cells, and notify each other of what is new in each', async () => {
  const other: Service = await startService(service.context.config, {
    log: createLogger({ level: 'silent' }),
  });
  onTestFinished(() => other.stop());
  for (const cell of NAMES) {
    const project = projects[cell];
    const jwt = project.userJwt({ user_external_id: 'two' });
    const stream = await openStream(`${other.address}/v2/notifications/stream`, { jwt });
    onTestFinished(() => stream.source.close());
    await project.call('POST', '/broadcasts', { title: cell, recipients: [{ external_id: 'two' }] });
    await expect.poll(() => titles(stream.frames)).toEqual([cell]);
  }
});

test('a cell whose database is lost gets a 503 until it is back; the others are served', async () => {
  const database = await createTestDatabase();
  await command('cell', 'add', 'lost', '--database-url', database.url);
  const { id, apiKey, jwt } = await createIn('lost', 'of lost');
  await onServer(`alter database ${database.connection.database} allow_connections false`);
  const own = { RATE_LIMIT_IP: 3, SLACKBOT_SIGNING_SECRET: 'b'.repeat(32) };
  const node = await startService(
    { ...service.context.config, ...own },
    { log: createLogger({ level: 'silent' }) },
  );
  onTestFinished(async () => {
    await node.stop();
    await removeCell('lost');
    await database.drop();
  });
  const address = () => node.address;
  const list = () => caller(address, jwt)('GET', '/broadcasts');
  const { status, headers, codes } = await list();
  expect({ status, codes, retry: headers.get('retry-after') }).toEqual({
    status: 503,
    codes: ['service_unavailable'],
    retry: '1',
  });
  const socket = `${node.address.replace('http', 'ws')}/?api_key=${apiKey}&token=x`;
  await expect(openSocket(socket)).rejects.toMatchObject({ status: 503 });
  for (const project of [projects.near, projects.far, service.project])
    expect((await caller(address, project.jwt)('GET', '/broadcasts')).status).toBe(200);
  const ready = await fetch(`${node.address}/readyz?verbose`);
  expect(ready.status).toBe(200);
  expect(await ready.json()).toMatchObject({
    cells: { near: { status: 'ok' }, lost: { status: 'unavailable' } },
  });
  expect(await (await fetch(`${node.address}/metrics`)).text()).toContain('\nbelfry_cells_unavailable 1\n');
  // The vendor repeats the webhook: the cell of its integration may be the lost one.
  const post = async (path: string, headers: Record<string, string> = {}) => {
    const url = `${node.address}/v2/integrations/${path}`;
    const response = await fetch(url, { method: 'POST', body: CHALLENGE, headers });
    return { status: response.status, body: await response.json() };
  };
  const unsigned: number[] = [];
  for (let count = 0; count < 4; count += 1)
    unsigned.push((await post(`stripe/webhooks/incoming/${id}`)).status);
  expect(unsigned).toEqual([503, 503, 503, 429]);
  // Those for all cells reach the others.
  const seconds = Math.floor(Date.now() / 1000);
  const hmac = createHmac('sha256', own.SLACKBOT_SIGNING_SECRET);
  const challenge = await post('service_slackbot/webhooks/incoming', {
    'content-type': 'application/json',
    'x-slack-request-timestamp': `${seconds}`,
    'x-slack-signature': `v0=${hmac.update(`v0:${seconds}:${CHALLENGE}`).digest('hex')}`,
  });
  expect(challenge).toEqual({ status: 200, body: { challenge: 'c' } });
  // Commands work with the other cells, and report this one.
  const listed = await runCommand(['project', 'list', '--json'], settings);
  expect(listed.code).toBe(1);
  expect(listed.err).toMatch(/cell lost: .* cannot be reached/);
  expect(JSON.parse(listed.out)).toContainEqual(expect.objectContaining({ name: 'of far' }));
  expect(await command('token', 'list', '--project', 'of near')).toBeInstanceOf(Array);
  await onServer(`alter database ${database.connection.database} allow_connections true`);
  await until(list, (response) => response.status === 200);
});

test('a node listens before a cell is open whose migration takes long', async () => {
  const migrating = new pg.Client({ connectionString: elsewhere.url });
  await migrating.connect();
  await migrating.query('begin; lock table migrations in access exclusive mode');
  const node = await startService(service.context.config, { log: createLogger({ level: 'silent' }) });
  onTestFinished(() => node.stop());
  const list = (cell: (typeof NAMES)[number]) =>
    caller(() => node.address, projects[cell].jwt)('GET', '/broadcasts');
  expect((await list('near')).status).toBe(200);
  expect((await list('far')).status).toBe(503);
  await migrating.end();
  await until(
    () => list('far'),
    ({ status }) => status === 200,
  );
});

test('the metrics count an open cell whose database fails', async () => {
  const database = await createTestDatabase();
  await command('cell', 'add', 'failing', '--database-url', database.url);
  const unavailable = async () => {
    const text = await (await fetch(`${service.address}/metrics`)).text();
    return /^belfry_cells_unavailable (.*)$/m.exec(text)?.[1];
  };
  const isOpen = () => service.contexts().some(({ cell }) => cell === 'failing');
  await until(isOpen, (open) => open);
  await until(unavailable, (count) => count === '0');
  await database.drop();
  await until(unavailable, (count) => count === '1');
  await removeCell('failing');
});

/** Removes a cell with its projects, and waits until the node has closed it. */
async function removeCell(name: string): Promise<void> {
  const { db, bus } = contextIn(service, 'public');
  await db.query(sql('', 'delete from cell_projects where cell = $1'), [name]);
  await db.query(sql('', 'delete from cells where name = $1'), [name]);
  bus.publish({ type: 'cells_changed' });
  await until(
    () => service.logged.some((line) => line.includes('cell closed') && line.includes(`"${name}"`)),
    (closed) => closed,
  );
}

describe('a cell is not added', () => {
  const refused = async (...args: string[]) => {
    const { code, err } = await runCommand(['cell', 'add', ...args], settings);
    expect(code).not.toBe(0);
    return err;
  };

  test('with a name that is taken or invalid', async () => {
    expect(await refused('near')).toMatch(/there is a cell near already/);
    expect(await refused('public')).toMatch(/it is the default one/);
    for (const name of ['Near', '1near', 'a-b', 'x'.repeat(33), 'a;b'])
      expect(await refused(name)).toMatch(/has 1 to 32 characters/);
  });

  test('that has the tables of another cell, or projects already', async () => {
    expect(await refused('again', '--database-url', elsewhere.url)).toMatch(/tables of the cell far/);
    expect(await refused('again', '--database-url', settings.DATABASE_URL ?? '')).toMatch(
      /tables of the cell public/,
    );
    const used = await createTestDatabase();
    onTestFinished(() => used.drop());
    const client = new pg.Client(used.connection);
    await client.connect();
    await client.query(
      `insert into projects (id, name, api_key, sealed_api_secret, sealed_signing_key)
      values (gen_random_uuid(), 'p', 'pk_12345678', '', '')`,
    );
    await client.end();
    const error = await refused('again', '--database-url', used.url);
    expect(error).toMatch(/belfry: /);
    expect((await command('cell', 'list')).map(({ cell }: { cell: string }) => cell)).not.toContain('again');
  });

  test('on a worker of Citus if the database has no Citus; then none can be balanced', async () => {
    expect(await refused('again', '--distribute')).toMatch(/needs a database with the extension Citus 12/);
    expect(await refused('again', '--distribute', '--database-url', elsewhere.url)).toMatch(/Citus 12/);
    expect((await command('cell', 'list')).map(({ cell }: { cell: string }) => cell)).not.toContain('again');
    const { code, err } = await runCommand(['cell', 'rebalance'], settings);
    expect([code, err]).toEqual([1, expect.stringContaining('no cell is on a worker of Citus')]);
  });

  test('while a server runs that does not know cells', async () => {
    const name = 'belfry api (schema 57)';
    const old = new pg.Client({ connectionString: settings.DATABASE_URL, application_name: name });
    await old.connect();
    expect(await refused('again').finally(() => old.end())).toMatch(
      /it knows schema 57\): update all servers to a release that knows schema 58/,
    );
  });

  test('with something else than the address of a database', async () => {
    for (const url of ['nonsense', 'http://db.example/belfry', 'postgres://u:secret@h/d?sslrootcert=/none']) {
      const { code, err } = await runCommand(['cell', 'add', 'again', '--database-url', url], settings);
      expect([code, err]).toEqual([
        2,
        expect.stringMatching(/^belfry: --database-url (must be an address|has)/),
      ]);
      expect(err).not.toContain('secret');
    }
    const good = 'postgres://belfry@127.0.0.1:1/none';
    expect(await refused('again', '--database-url', good, '--direct-url', 'x')).toMatch(
      /--direct-url must be/,
    );
    const set = await runCommand(['cell', 'set', 'near', '--database-url', 'nonsense'], settings);
    expect([set.code, set.err]).toEqual([2, expect.stringContaining('--database-url must be')]);
  });

  test('in a database that cannot be reached', async () => {
    const url = 'postgres://belfry@127.0.0.1:1/none';
    expect(await refused('again', '--database-url', url)).toMatch(/cannot be reached/);
    const urls = { url, directUrl: url };
    const cell = sealedCell(service.context, { name: 'gone', schema: 'public', urls });
    const opening = openCell(service.context, cell, {
      role: 'client',
      log: createLogger({ level: 'silent' }),
    });
    await expect(opening).rejects.toThrow('cell gone: the database of the URL of the cell cannot be reached');
  });
});

test('a cell whose clock is wrong is not opened, and the time of the node remains', async () => {
  const ahead = await createTestDatabase();
  onTestFinished(() => ahead.drop());
  const { database } = ahead.connection;
  for (const statement of [
    `create function public.clock_timestamp() returns timestamptz language sql
      return pg_catalog.clock_timestamp() + interval '1 hour'`,
    `alter database ${database} set search_path = public, pg_catalog`,
  ])
    await withClient(ahead.connection, (client) => client.query(statement));
  const urls = { url: ahead.url, directUrl: ahead.url };
  const cell = sealedCell(service.context, { name: 'ahead', schema: 'public', urls });
  const opening = openCell(service.context, cell, { role: 'client', log: createLogger({ level: 'silent' }) });
  await expect(opening).rejects.toThrow('cell ahead: the clock of its database is 3600 s ahead');
  expect(Math.abs(systemClock.now() - Date.now())).toBeLessThan(60_000);
  const { err } = await runCommand(['cell', 'add', 'ahead', '--database-url', ahead.url], settings);
  expect(err).toMatch(/set both by NTP/);
});

describe('behind a connection pooler', () => {
  const role = `cell_${randomBytes(6).toString('hex')}`;
  const database = () => new URL(settings.DATABASE_URL ?? '');
  beforeAll(async () => {
    for (const statement of [
      `create role ${role} login`,
      `create schema ${role} authorization ${role}`,
      `alter role ${role} set search_path = ${role}`,
    ])
      await service.rows(statement);
  });
  afterAll(async () => {
    await service.rows(`drop owned by ${role} cascade`);
    await onServer(`drop role ${role}`);
  });

  test('a cell cannot choose a schema, and says what to do', async () => {
    const direct = { ...settings, DATABASE_DIRECT_URL: `${settings.DATABASE_URL}&application_name=direct` };
    const { code, err } = await runCommand(['cell', 'add', 'pooled'], direct);
    expect(code).toBe(1);
    expect(err).toMatch(/connection pooler.*--database-url, for a user with a search_path of its own/);
  });

  test('a user with a search_path has a cell of its own in the same database', async () => {
    const url = database();
    url.username = role;
    expect(await command('cell', 'add', 'pooled', '--database-url', url.href)).toEqual({
      name: 'pooled',
      schema: role,
    });
    const project = await createIn('pooled', 'of pooled');
    const sent = await until(
      () => project.call('POST', '/broadcasts', { title: 'One', recipients: TO_ADA }),
      ({ status }) => status === 201,
    );
    await processed(project.call, sent.body.id);
    expect(await projectsIn('pooled')).toEqual([project.id]);
    // With another search_path, its connections would find the tables of the default cell.
    await onServer(`alter role ${role} set search_path = public`);
    const { err } = await runCommand(['token', 'list', '--project', project.id], settings);
    expect(err).toMatch(new RegExp(`cell pooled: .* use the schema public, and its tables are in ${role}`));
    await onServer(`alter role ${role} set search_path = ${role}`);
    await removeCell('pooled');
  });
});

test.skipIf(isPooled)('a cell is removed when it has no project, and closed by the nodes', async () => {
  await command('cell', 'add', 'brief');
  const isOpen = () => service.contexts().some(({ cell }) => cell === 'brief');
  await until(isOpen, (open) => open);
  expect((await runCommand(['cell', 'remove', 'near'], settings)).err).toMatch(/still has projects \(1\)/);
  expect((await runCommand(['cell', 'remove', 'public'], settings)).err).toMatch(/it remains/);
  expect((await runCommand(['cell', 'remove', 'none'], settings)).err).toMatch(/there is no cell none/);
  expect(await command('cell', 'remove', 'brief')).toEqual({ name: 'brief', removed: true });
  await until(isOpen, (open) => !open);
  await command('cell', 'add', 'brief'); // its tables are there
  await until(isOpen, (open) => open);
});

test('rows of the directory do not keep an empty cell from being removed', async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  await command('cell', 'add', 'stale', '--database-url', database.url);
  const ids = { id: randomUUID(), apiKey: 'pk_stale', cell: 'stale' };
  await assignToCell(contextIn(service, 'public').db, ids);
  expect(await command('cell', 'remove', 'stale')).toEqual({ name: 'stale', removed: true });
});

test('a node opens and closes cells without the message of a command that was killed', async () => {
  const context = contextIn(service, 'public');
  const open = async ({ name }: { name: string }) => ({ name, close: async () => {} });
  const cells = new OpenCells({ main: context as unknown as Opened, open, lookEveryMs: 50 });
  onTestFinished(() => cells.close());
  await cells.start();
  const names = () => cells.all.map(({ name }) => name);
  const before = names();
  await insertCell(context.db, sealedCell(context, { name: 'unannounced', schema: 'x', urls: undefined }));
  await until(names, (found) => found.includes('unannounced'));
  await context.db.query(sql('', "delete from cells where name = 'unannounced'"));
  await until(names, (found) => !found.includes('unannounced'));
  expect(names()).toEqual(before);
});

test('a cell that takes long to open delays neither the others nor the stop', async () => {
  const context = contextIn(service, 'public');
  const slow = Promise.withResolvers<void>();
  let attempts = 0;
  const closed: string[] = [];
  const open = async ({ name }: { name: string }) => {
    if (name === 'slow') await slow.promise;
    if (name === 'restarting') {
      attempts += 1;
      if (attempts === 1) throw new Error('its database is restarting');
    }
    return { name, close: async () => void closed.push(name) };
  };
  const cells = new OpenCells({ main: context as unknown as Opened, open, lookEveryMs: 50 });
  const added = ['slow', 'restarting'];
  onTestFinished(async () => {
    slow.resolve();
    await cells.close();
    await context.db.query(sql('', 'delete from cells where name = any ($1)'), [added]);
  });
  for (const name of added)
    await insertCell(context.db, sealedCell(context, { name, schema: name, urls: undefined }));
  void cells.start();
  await until(
    () => cells.all.map(({ name }) => name),
    (found) => found.includes('restarting'),
  );
  await cells.close();
  expect(closed).toContain('restarting');
  slow.resolve();
  await until(
    () => closed,
    (names) => names.includes('slow'),
  );
});

test('a cell that was removed and added in another place is opened there', async () => {
  const places = [await createTestDatabase(), await createTestDatabase()];
  onTestFinished(async () => {
    await removeCell('moved');
    await Promise.all(places.map((place) => place.drop()));
  });
  const { db, bus } = contextIn(service, 'public');
  for (const { url } of places) {
    // In one transaction, as for a node that gets no message in between.
    await db.transaction(async (tx) => {
      await tx.query(sql('', "delete from cells where name = 'moved'"));
      const urls = { url, directUrl: url };
      await insertCell(tx, sealedCell(service.context, { name: 'moved', schema: 'public', urls }));
    });
    bus.publish({ type: 'cells_changed' });
    await until(
      () => service.contexts().find(({ cell }) => cell === 'moved') as Opened | undefined,
      (moved) => moved?.place.connection.connectionString === url,
    );
  }
});

test('the URL of a cell is changed to a database with its projects, and nodes use it', async () => {
  const [first, empty] = [await createTestDatabase(), await createDatabaseOn(inject('testServer'))];
  const copied = `${first.connection.database}_copy`;
  onTestFinished(async () => {
    await removeCell('placed');
    await onServer(`drop database if exists ${copied} with (force)`);
    await Promise.all([first.drop(), empty.drop()]);
  });
  await command('cell', 'add', 'placed', '--database-url', first.url);
  const project = await createIn('placed', 'of placed');
  const title = async () => (await project.as('ada')('GET', '/notifications')).body.data?.[0]?.title;
  const send = async (text: string) => {
    const sent = await until(
      () => project.call('POST', '/broadcasts', { title: text, recipients: TO_ADA }),
      ({ status }) => status === 201,
    );
    await processed(project.call, sent.body.id);
  };
  await send('before');

  // While the nodes are away from it, as the guide says.
  await onServer(`alter database ${first.connection.database} allow_connections false`);
  await onServer(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${first.connection.database}'`,
  );
  await onServer(`create database ${copied} template ${first.connection.database}`);
  await onServer(`alter database ${copied} allow_connections true`);
  const url = new URL(first.url);
  url.pathname = `/${copied}`;
  const set = (to: string, name = 'placed') =>
    runCommand(['cell', 'set', name, '--database-url', to, '--json'], settings);
  expect((await set(empty.url)).err).toContain(`does not have the project ${project.id} of placed`);
  const client = new pg.Client({ connectionString: empty.url });
  await client.connect();
  const { rows } = await client.query('select from pg_tables where schemaname = current_schema()');
  await client.end();
  expect(rows).toEqual([]); // it was left as it is
  expect((await set('postgres://belfry@127.0.0.1:1/none')).err).toMatch(/cannot be reached/);
  expect((await set(url.href, 'public')).err).toMatch(/is DATABASE_URL/);
  expect((await set(url.href, 'none')).err).toMatch(/there is no cell none/);
  expect(await set(url.href)).toMatchObject({ code: 0, err: '' });
  await until(title, (found) => found === 'before');
  await send('after');
  await until(title, (found) => found === 'after');
  const context = contextIn(service, 'placed') as unknown as Opened;
  expect(context.place.connection.connectionString).toBe(url.href);
});

test('there is no demo in other cells', async () => {
  const headers = { 'x-service-api-key': projects.near.apiKey };
  expect((await service.request('POST', '/demo/session', { headers })).status).toBe(404);
  expect((await service.request('POST', '/demo/session')).status).toBe(200);
  expect(await projectsIn('near')).toEqual([projects.near.id]);
});

test('the lists show the cell of each project, and no password', async () => {
  const list: { name: string; cell: string }[] = await command('project', 'list');
  for (const cell of NAMES)
    expect(list).toContainEqual(expect.objectContaining({ name: `of ${cell}`, cell }));
  expect(list).toContainEqual(expect.objectContaining({ name: 'test', cell: 'public' }));
  const cells = await command('cell', 'list');
  const near = isPooled ? 'public' : 'belfry_near';
  expect(cells).toContainEqual(expect.objectContaining({ cell: 'near', schema: near, projects: 1 }));
  const { username, password } = new URL(elsewhere.url);
  expect(cells.find(({ cell }: { cell: string }) => cell === 'far').database).not.toContain(`${username}@`);
  if (password !== '') expect(JSON.stringify(cells)).not.toContain(password);
});

test('migrate reports all cells', async () => {
  expect(await command('migrate')).toMatchObject({
    schema: newestSchema(),
    applied: [],
    cells: { near: [], far: [] },
  });
  const { cells } = await command('migrate', '--dry-run');
  expect(cells.far).toMatchObject({ schema: newestSchema(), problems: [] });
});

test('doctor finds a project that the directory does not have, and "cell index" enters it', async () => {
  const check = async () => {
    const { out } = await runCommand(['doctor', '--json'], settings);
    const { checks } = JSON.parse(out) as { checks: { check: string; status: string; message: string }[] };
    return checks.find((one) => one.check === 'cell near');
  };
  expect(await check()).toMatchObject({ status: 'ok' });
  const db = contextIn(service, 'public').db;
  await db.query(sql('', 'delete from cell_projects where project_id = $1'), [projects.near.id]);
  expect(await check()).toMatchObject({ status: 'problem', message: expect.stringContaining('of near') });
  expect(await command('cell', 'index')).toMatchObject({ near: 1 });
  expect(await check()).toMatchObject({ status: 'ok' });
});
