import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { isDatabaseUnavailable, isOfOneItem, type Queryable, sql } from '../../src/db/client.ts';
import { capture, MOVE_LOCK, release } from '../../src/db/move/capture.ts';
import { listMovedTables, type MovedTable, ofProject } from '../../src/db/move/tables.ts';
import { newId } from '../../src/lib/ids.ts';
import { contextIn } from '../support/cells.ts';
import { belfry, ended, runCommand } from '../support/cli.ts';
import { expectExactlyOnce, load, messageIdOf, saveSmtp } from '../support/faults.ts';
import { openStream, titles } from '../support/realtime.ts';
import { processed, type TestProject, until } from '../support/service.ts';
import { startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { startThreeCells, type ThreeCells } from '../support/three-cells.ts';
import { startWebhookReceiver } from '../support/webhook-receiver.ts';
import { STATE } from '../support/workflows.ts';

let cells: ThreeCells;
let service: ThreeCells['service'];
let settings: ThreeCells['settings'];
let command: ThreeCells['command'];
let createIn: ThreeCells['createIn'];
let tables: MovedTable[];

beforeAll(async () => {
  cells = await startThreeCells();
  ({ service, settings, command, createIn } = cells);
  const client = await service.context.db.connect();
  tables = await listMovedTables(client);
  await client.end();
});
afterAll(() => cells?.stop());

/** Moves a project. */
async function move(project: TestProject, to: string, paused: unknown = expect.any(Number)): Promise<void> {
  const { code, out, err } = await runCommand(
    ['project', 'move', project.id, '--to', to, '--json'],
    settings,
  );
  expect(code, err).toBe(0);
  const pause = paused === null ? {} : { paused_ms: paused };
  expect(JSON.parse(out)).toEqual({ project_id: project.id, cell: to, ...pause });
}

/** All rows of a project in a cell as JSON, by table. */
async function rowsIn(cell: string, projectId: string): Promise<Record<string, string[]>> {
  const { db } = contextIn(service, cell);
  const found: Record<string, string[]> = {};
  for (const table of tables) {
    const rows = await db.query<{ row: string }>(
      sql(
        '',
        `select to_json(r)::text as row from ${table.name} r where ${ofProject(table, 'r', projectId)}`,
      ),
    );
    if (rows.length > 0) found[table.name] = rows.map(({ row }) => comparable(table, row)).sort();
  }
  return found;
}

/** Without what differs between databases: ids of transactions and of jobs. */
function comparable({ name }: MovedTable, json: string): string {
  const row = JSON.parse(json) as Record<string, unknown>;
  for (const column of ['xact', 'feed_xact', ...(name === 'jobs' ? ['id', 'lease_id'] : [])])
    delete row[column];
  return JSON.stringify(row);
}

/** Triggers and functions of moves in a cell. */
async function leftBehind(cell: string): Promise<unknown[]> {
  return contextIn(service, cell).db.query(
    sql(
      '',
      `select tgname::text as name from pg_trigger where tgname like 'moving_%'
      union all
      select proname::text from pg_proc where proname like 'moving_%'
      union all
      select table_name from changed_rows`,
    ),
  );
}

/** A project with rows in most tables. */
async function filled(cell: string, name: string): Promise<TestProject> {
  const project = await createIn(cell, name);
  const { call } = project;
  const ok = async (...args: Parameters<typeof call>) => {
    const response = await call(...args);
    expect(response.status, JSON.stringify([args, response.body])).toBeLessThan(300);
    return response.body;
  };
  await ok('PUT', '/integrations/github', { webhook_signing_secret: 'a-secret-of-github' });
  await ok('PUT', '/users', { external_id: 'ada', email: 'ada@example.com', first_name: 'Ada' });
  await ok('PUT', '/users', { external_id: 'eve', email: 'eve@example.com' });
  const sent = await ok('POST', '/broadcasts', {
    title: 'Hello',
    content: '<p>World</p>',
    topic: 'news',
    recipients: [{ external_id: 'ada' }, { external_id: 'eve' }, { external_id: 'new' }],
  });
  await processed(call, sent.id);
  const { body: inbox } = await project.as('ada')('GET', '/notifications');
  await project.as('ada')('POST', `/notifications/${inbox.data[0].id}/read`);
  await project.as('ada')('PUT', '/channels/in_app/inbox/tokens', { token: 'b'.repeat(64) });
  return project;
}

describe.each([
  ['public', 'near'],
  ['far', 'public'],
])('from %s to %s', (from, to) => {
  test('all rows move, and none stay', async () => {
    const project = await filled(from, `${from}-${to} ${randomUUID()}`);
    // It is written a second later.
    const before = await until(
      () => rowsIn(from, project.id),
      ({ users = [] }) => users.some((row) => !row.includes('"last_seen_at":null')),
    );
    await move(project, to);
    expect(await rowsIn(to, project.id)).toEqual(before);
    expect(await rowsIn(from, project.id)).toEqual({});
    expect(await leftBehind(from)).toEqual([]);
    const { body: inbox } = await project.as('ada')('GET', '/notifications');
    expect(inbox.data).toMatchObject([{ title: 'Hello', read_at: expect.any(String) }]);
    const sent = await project.call('POST', '/broadcasts', {
      title: 'Again',
      recipients: [{ external_id: 'ada' }],
    });
    expect(sent.status).toBe(201);
    await expect
      .poll(async () => (await project.as('ada')('GET', '/notifications')).body.data.length)
      .toBe(2);
    expect(await command('project', 'list')).toContainEqual(
      expect.objectContaining({ project_id: project.id, cell: to }),
    );
  });
});

test('a project in use moves without an error: nothing is lost or doubled', async () => {
  const smtp = await startSmtpStandIn();
  onTestFinished(() => smtp.stop());
  const project = await createIn('near', `in use ${randomUUID()}`);
  await saveSmtp(project, smtp);
  const receiver = await startWebhookReceiver();
  onTestFinished(() => receiver.stop());
  const types = ['broadcast.created', 'broadcast.processed', 'user.created'];
  await project.call('PUT', '/webhooks', { url: receiver.url, event_types: types });
  // Each user is welcomed by a run that waits for a while, maybe in both cells.
  await project.call('PUT', '/workflows', {
    key: 'welcome',
    triggers: [{ event: 'user.created' }],
    steps: [
      { command: 'wait', input: { duration: 2 } },
      { command: 'set', input: { welcomed: true } },
    ],
  });
  const later = await project.call('POST', '/broadcasts', {
    title: 'later',
    recipients: [{ external_id: 'late' }],
    send_at: new Date(Date.now() + 4_000).toISOString(),
  });
  expect([later.status, later.messages]).toEqual([201, []]);
  const stream = await openStream(`${service.address}/v2/notifications/stream`, {
    jwt: project.userJwt({ user_external_id: 'watcher' }),
  });
  onTestFinished(() => stream.source.close());
  const watched: string[] = [];
  const watching = setInterval(() => {
    const title = `watched ${watched.length}`;
    watched.push(title);
    void project.call('POST', '/broadcasts', { title, recipients: [{ external_id: 'watcher' }] });
  }, 250);
  onTestFinished(() => clearInterval(watching));
  const running = load(project, { clients: 2 });
  await running.accepted(100);
  const moving = move(project, 'far');
  // The rest of the command only deletes rows.
  await until(
    () => service.rows('select from project_moves where switched_at is not null'),
    (rows) => rows.length > 0,
  );
  await running.accepted(running.responses.length + 50);
  await running.stop();
  clearInterval(watching);
  await moving;
  await expect
    .poll(async () => (await project.as('late')('GET', '/notifications')).body.data)
    .toMatchObject([{ title: 'later' }]);
  expect(running.responses.filter(({ status }) => status !== 201)).toEqual([]);
  const context = contextIn(service, 'far');
  // On a busy machine the server is behind by a minute.
  await until(
    () => context.db.query(sql('', 'select from jobs limit 1')),
    (jobs) => jobs.length === 0,
    { everyMs: 100 },
  );
  await expectExactlyOnce({ context }, running);
  const wanted = await context.db.query<{ id: string }>(
    sql(
      '',
      `select n.id from notifications n join users u on u.id = n.user_id
      where u.email is not null and u.project_id = $1`,
    ),
    [project.id],
  );
  await until(
    () => new Set(smtp.received.map(messageIdOf)).size,
    (sent) => sent >= wanted.length,
    { everyMs: 100 },
  );
  expect(smtp.received.map(messageIdOf).sort()).toEqual(wanted.map(({ id }) => id).sort());
  // Every event was sent and has started its run once.
  const events = async (type: string) => {
    const rows = await context.db.query<{ count: number }>(
      sql('', 'select coalesce(sum(size), 0)::int as count from events where project_id = $1 and type = $2'),
      [project.id, type],
    );
    return rows[0]?.count ?? 0;
  };
  const created = await events('user.created');
  await receiver.waitFor(
    created + (await events('broadcast.created')) + (await events('broadcast.processed')),
  );
  expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(receiver.received.length);
  for (const type of types)
    expect(receiver.received.filter(({ body }) => body.type === type).length, type).toBe(await events(type));
  const runs = () =>
    context.db.query<{ state: number; users: number; runs: number }>(
      sql(
        '',
        `select state, count(distinct user_id)::int as users, count(*)::int as runs
        from workflow_runs
        where project_id = $1
        group by state`,
      ),
      [project.id],
    );
  await until(runs, (states) => states.every(({ state }) => state === STATE.completed));
  expect(await runs()).toEqual([{ state: STATE.completed, users: created, runs: created }]);
  // The client has connected again, and has got everything once.
  await until(
    () => titles(stream.frames).length,
    (count) => count >= watched.length,
  );
  expect(titles(stream.frames).sort()).toEqual(watched.sort());
  expect(stream.resyncs).toBe(0);
});

test('a move that is killed at any step goes on when it is called again', async () => {
  const project = await createIn('far', `killed ${randomUUID()}`);
  const running = load(project, { clients: 2 });
  await running.accepted(50);
  const source = contextIn(service, 'far').db;
  const target = contextIn(service, 'near').db;
  const has = (db: Queryable, text: string) => async () => (await db.query(sql('', text))).length > 0;
  const steps: readonly [string, () => Promise<boolean>][] = [
    ['triggers are created', has(source, 'select from leaving_projects')],
    ['rows are copied', has(target, `select from broadcasts where project_id = '${project.id}'`)],
    ['changes are copied', has(source, "select from leases where node like 'move by %'")],
    ['jobs are held', has(source, 'select from leaving_projects where lease_id is not null')],
    ['settings are copied', has(target, "select from arriving_rows where table_name = 'projects'")],
    ['the project has left', has(source, 'select from leaving_projects where left_at is not null')],
    ['it has arrived', has(target, `select from projects where id = '${project.id}'`)],
    [
      'the directory leads to it',
      has(service.context.db, 'select from project_moves where switched_at is not null'),
    ],
    [
      'rows are deleted',
      async () => !(await has(source, `select from events where project_id = '${project.id}' limit 1`)()),
    ],
  ];
  for (const [index, [step]] of steps.entries()) {
    // A short step may have passed since it was looked for.
    const isReached = async () => {
      for (const [, isAt] of steps.slice(index)) if (await isAt()) return true;
      return false;
    };
    const child = belfry(['project', 'move', project.id, '--to', 'near'], settings);
    const moving = ended(child);
    const reached = await until(isReached, (isAt) => isAt || child.exitCode !== null, { everyMs: 1 });
    child.kill('SIGKILL');
    await moving;
    expect(reached, `${step}, before it ended`).toBe(true);
  }
  await move(project, 'near', null);
  await running.accepted(running.responses.length + 20);
  await running.stop();
  await expectExactlyOnce({ context: contextIn(service, 'near') }, running);
  expect(await rowsIn('far', project.id)).toEqual({});
  expect(await leftBehind('far')).toEqual([]);
});

test('a move is refused, and leaves nothing, if the other cell has a project of that name', async () => {
  const name = `twice ${randomUUID()}`;
  await createIn('near', name);
  const project = await createIn('far', name);
  const { code, err } = await runCommand(['project', 'move', project.id, '--to', 'near'], settings);
  expect({ code, err }).toEqual({
    code: 1,
    err: `belfry: the cell near has a project named ${name}\n`,
  });
  expect(await service.rows('select from project_moves')).toEqual([]);
  expect(await leftBehind('far')).toEqual([]);
});

test('a write of a project that has left fails for it alone, and may succeed later', async () => {
  const { db } = contextIn(service, 'far');
  const project = await createIn('far', `left ${randomUUID()}`);
  const client = await db.connect();
  const users = tables.filter(({ name }) => name === 'users');
  await client.query('insert into leaving_projects (project_id, left_at) values ($1, now())', [project.id]);
  await capture(client, users, project.id);
  onTestFinished(async () => {
    await release(client, users);
    await client.query('delete from leaving_projects');
    await client.end();
  });
  const insert = sql(
    '',
    'insert into users (id, project_id, created_at, updated_at) values ($1, $2, now(), now())',
  );
  const writing = db.query(insert, [newId(), project.id]);
  const error = await writing.catch((thrown: unknown) => thrown);
  expect(String(error)).toContain('has moved to another cell');
  expect([isOfOneItem(error), isDatabaseUnavailable(error)]).toEqual([true, true]);
});

test('a move stops before the project leaves if its name is taken meanwhile', async () => {
  const name = `taken ${randomUUID()}`;
  const project = await filled('far', name);
  const { db } = contextIn(service, 'far');
  const moving = await db.transaction(async (tx) => {
    // As a transaction does that writes rows of the project: the move waits for its end.
    await tx.query(sql('', `select pg_advisory_xact_lock_shared(${MOVE_LOCK(project.id)})`));
    const started = ended(belfry(['project', 'move', project.id, '--to', 'near'], settings));
    await until(
      async () => {
        await tx.query(sql('', 'select')); // a transaction that is idle for long is aborted
        return db.query(sql('', 'select from leaving_projects where lease_id is not null'));
      },
      (rows) => rows.length > 0,
    );
    await createIn('near', name);
    return { started };
  });
  const { code, err } = await moving.started;
  expect(code).toBe(1);
  expect(err).toContain(`belfry: the cell near has a project named ${name}\n`);
  expect(await db.query(sql('', 'select left_at from leaving_projects'))).toEqual([{ left_at: null }]);
  // It goes on in its cell, where the move can be cancelled.
  const sent = await project.call('POST', '/broadcasts', {
    title: 'x',
    recipients: [{ external_id: 'eve' }],
  });
  await processed(project.call, sent.body.id);
  expect(await command('project', 'move', project.id, '--cancel')).toMatchObject({ cell: 'far' });
  expect(await leftBehind('far')).toEqual([]);
});

test('a move that was killed can be cancelled', async () => {
  const project = await filled('near', `cancelled ${randomUUID()}`);
  const { db } = contextIn(service, 'near');
  const child = belfry(['project', 'move', project.id, '--to', 'far'], settings);
  const moving = ended(child);
  await until(
    () => db.query(sql('', 'select from leaving_projects where lease_id is not null')),
    (rows) => rows.length > 0,
    { everyMs: 1 },
  );
  child.kill('SIGKILL');
  await moving;
  expect(await command('project', 'move', project.id, '--cancel')).toEqual({
    project_id: project.id,
    cell: 'near',
    cancelled: true,
  });
  expect(await rowsIn('far', project.id)).toEqual({});
  expect(await leftBehind('near')).toEqual([]);
  const sent = await project.call('POST', '/broadcasts', {
    title: 'x',
    recipients: [{ external_id: 'eve' }],
  });
  await processed(project.call, sent.body.id);
});

test('cancelling a move that was killed at its very end does not delete the project', async () => {
  const project = await filled('near', `not cancelled ${randomUUID()}`);
  const { db } = service.context;
  await db.query(
    sql(
      '',
      `create function hold_end() returns trigger language plpgsql
      as $$ begin perform pg_advisory_xact_lock(1); return old; end $$`,
    ),
  );
  await db.query(
    sql('', 'create trigger held before delete on project_moves for each row execute function hold_end()'),
  );
  await db.transaction(async (tx) => {
    await tx.query(sql('', 'select pg_advisory_xact_lock(1)'));
    const child = belfry(['project', 'move', project.id, '--to', 'far'], settings);
    const moving = ended(child);
    const waiting = sql(
      '',
      `select pid from pg_stat_activity
      where query like 'delete from project_moves%' and wait_event_type = 'Lock'
        and datname = current_database()`,
    );
    const [deleting] = await until(
      async () => {
        await tx.query(sql('', 'select')); // a transaction that is idle for long is aborted
        return db.query<{ pid: number }>(waiting);
      },
      (rows) => rows.length > 0,
    );
    child.kill('SIGKILL');
    await moving;
    await db.query(sql('', 'select pg_terminate_backend($1, 10000)'), [deleting?.pid]);
  });
  await db.query(sql('', 'drop function hold_end() cascade'));
  expect(await rowsIn('near', project.id)).toEqual({});
  const before = await rowsIn('far', project.id);
  expect(await runCommand(['project', 'move', project.id, '--cancel'], settings)).toEqual({
    code: 1,
    out: '',
    err: 'belfry: the project has left its cell: the move can only be finished\n',
  });
  expect(await rowsIn('far', project.id)).toEqual(before);
  await move(project, 'far', null);
  expect(await rowsIn('far', project.id)).toEqual(before);
});
