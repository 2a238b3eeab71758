import { expect, onTestFinished, test } from 'vitest';
import { startService } from '../../src/app.ts';
import { sql } from '../../src/db/client.ts';
import { recordEvents } from '../../src/domain/ground/events/record.ts';
import { newId } from '../../src/lib/ids.ts';
import { startHttpStandIn } from '../support/http-stand-in.ts';
import { startTestService, type TestService, until } from '../support/service.ts';

// Simulates a full disk: statements fail with PostgreSQL's code for it (53100). A claim may still find room
// in a page or a log file when an outcome does not.

const RECIPIENTS = 300;
// The maximum number of e-mails at the mailer at the same time.
const IN_FLIGHT = 16;
const REQUESTS_PER_WEBHOOK = 8;
const AT_ONCE = 5;

/** Makes writes to these tables fail until it is released. Counts the failed ones. */
async function fillDisk({ context: { db } }: TestService, tables: readonly string[]) {
  const run = (text: string) => db.query(sql('', text));
  await run('create sequence if not exists failed_writes');
  await run(`create or replace function disk_full() returns trigger language plpgsql as $$
    begin
      perform nextval('failed_writes');
      raise exception 'could not extend file: No space left on device' using errcode = 'disk_full';
    end $$`);
  for (const table of tables) {
    await run(
      `create trigger full_disk before insert or update or delete on ${table} execute function disk_full()`,
    );
  }
  const failed = async () => {
    const [row] = await db.query<{ count: number }>(
      sql('', 'select case when is_called then last_value else 0 end as count from failed_writes'),
    );
    return row?.count ?? 0;
  };
  return {
    /** Waits until this many more writes have failed. */
    async fails(times: number) {
      const before = await failed();
      await until(failed, (count) => count >= before + times);
    },
    async free() {
      for (const table of tables) await run(`drop trigger full_disk on ${table}`);
    },
  };
}

/** Makes new broadcasts and users fail with PostgreSQL's code for an error. */
async function failWrites({ context: { db } }: TestService, code: string) {
  const run = (text: string) => db.query(sql('', text));
  await run(`create function cannot_write() returns trigger language plpgsql as $$
    begin
      raise exception 'not shown to clients' using errcode = '${code}';
    end $$`);
  for (const table of ['broadcasts', 'users'])
    await run(`create trigger no_writes before insert on ${table} execute function cannot_write()`);
}

/** A mailer or receiver that responds to a few requests at once, and to all others when it is released. */
async function startHesitant(nameOf: (body: string) => string) {
  const names: string[] = [];
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const server = await startHttpStandIn(async (_request, body) => {
    names.push(nameOf(body.toString()));
    if (names.length > AT_ONCE) await released;
    return { status: 200, body: {} };
  });
  onTestFinished(server.stop);
  return { ...server, names, release };
}

const repeated = (names: readonly string[]) => names.filter((name, index) => names.indexOf(name) < index);

async function broadcast({ project }: TestService, url: string): Promise<string> {
  await project.call('PUT', '/integrations/ping_email', { url });
  const recipients = Array.from({ length: RECIPIENTS }, (_, index) => ({
    external_id: `user-${index}`,
    email: `user-${index}@example.com`,
  }));
  return (await project.call('POST', '/broadcasts', { title: 'Hello', recipients })).body.id;
}

const recipientOf = (body: string) => /user-\d+@example\.com/.exec(body)?.[0] ?? '';

test.each([
  ['53100', 'its disk is full'],
  ['58030', 'its disk fails'],
  ['25006', 'it is read-only (a replica, or configured so)'],
  ['42501', 'its disk is read-only, or its user lacks a right'],
])('a request that cannot be stored (%s) says so, as /readyz does, and may be retried', async (code, why) => {
  const service = await startTestService({ pollMs: 3_600_000 });
  onTestFinished(service.stop);
  await failWrites(service, code);
  const message = `The database of the service cannot write: ${why}. Try again later`;
  const unavailable = {
    status: 503,
    body: { errors: [{ code: 'service_unavailable', message }] },
  };
  const body = { title: 'Hello', recipients: [{ external_id: 'ada' }] };
  const sent = await service.project.call('POST', '/broadcasts', body);
  expect(sent).toMatchObject(unavailable);
  expect(sent.headers.get('retry-after')).toBe('1');
  expect(await service.project.call('PUT', '/users', { external_id: 'ada' })).toMatchObject(unavailable);
  const ready = await fetch(`${service.address}/readyz`);
  expect(await ready.json()).toEqual({ status: 'unavailable', reason: `the database cannot write: ${why}` });
  expect(await (await fetch(`${service.address}/metrics`)).text()).toContain('\nbelfry_ready 0\n');
  // What only reads works.
  expect(await service.project.call('GET', '/users')).toMatchObject({ status: 200 });
});

test.each([
  ['40P01', 'a deadlock'],
  ['55P03', 'a lock'],
  ['57014', 'a slow statement'],
])('a busy database (%s, %s) is called busy, and counts as ready', async (code) => {
  const service = await startTestService({ pollMs: 3_600_000 });
  onTestFinished(service.stop);
  await failWrites(service, code);
  expect(await service.project.call('PUT', '/users', { external_id: 'ada' })).toMatchObject({
    status: 503,
    body: {
      errors: [
        { code: 'service_unavailable', message: 'The database of the service is too busy; try again later' },
      ],
    },
  });
  expect(await fetch(`${service.address}/readyz`)).toMatchObject({ status: 200 });
});

test('e-mails are not sent while their outcomes cannot be stored, and none is sent twice', async () => {
  const service = await startTestService({ pollMs: 50 });
  onTestFinished(service.stop);
  const mailer = await startHesitant(recipientOf);
  const disk = await fillDisk(service, ['deliveries']);
  const id = await broadcast(service, mailer.address);
  await disk.fails(4);
  mailer.release();
  await disk.fails(8);
  expect(mailer.names.length).toBeLessThanOrEqual(AT_ONCE + IN_FLIGHT);
  await disk.free();
  await until(
    () => service.project.call('GET', `/broadcasts/${id}`),
    ({ body }) => body.status.status === 'processed' && mailer.names.length >= RECIPIENTS,
  );
  expect(repeated(mailer.names)).toEqual([]);
  expect(new Set(mailer.names).size).toBe(RECIPIENTS);
});

test('if leases of two servers expire on a full disk, neither resends what was not in flight', async () => {
  const first = await startTestService({ pollMs: 50 });
  onTestFinished(first.stop);
  const { config, log } = first.context;
  const second = await startService(config, { log, pollMs: 50 });
  onTestFinished(second.stop);
  const mailer = await startHesitant(recipientOf);
  const id = await broadcast(first, mailer.address);
  await until(
    () => mailer.names.length,
    (count) => count > AT_ONCE,
  );
  const disk = await fillDisk(first, ['deliveries', 'jobs', 'leases']);
  mailer.release();
  await until(
    () =>
      first.context.db.query<{ expired: boolean }>(
        sql('', 'select bool_and(expires_at < clock_timestamp()) as expired from leases'),
      ),
    ([row]) => row?.expired === true,
  );
  const before = mailer.names.length;
  const inFlight = new Set(mailer.names);
  await disk.fails(20);
  expect(mailer.names).toHaveLength(before);
  await disk.free();
  await until(
    () => first.project.call('GET', `/broadcasts/${id}`),
    ({ body }) => body.status.status === 'processed' && new Set(mailer.names).size >= RECIPIENTS,
  );
  expect(repeated(mailer.names).filter((name) => !inFlight.has(name))).toEqual([]);
});

test('webhook messages are not sent while their outcomes cannot be stored, and none twice', async () => {
  const service = await startTestService({ pollMs: 50 });
  onTestFinished(service.stop);
  const receiver = await startHesitant((body) => JSON.parse(body).data.id);
  const disk = await fillDisk(service, ['webhook_messages']);
  const url = receiver.address;
  await service.project.call('PUT', '/webhooks', { url, event_types: ['user.updated'] });
  await recordEvents(service.context.db, [
    {
      projectId: service.project.id,
      type: 'user.updated',
      userIds: Array.from({ length: RECIPIENTS }, () => newId()),
    },
  ]);
  await disk.fails(4);
  receiver.release();
  await disk.fails(8);
  expect(receiver.names.length).toBeLessThanOrEqual(AT_ONCE + REQUESTS_PER_WEBHOOK);
  await disk.free();
  await until(
    () => receiver.names.length,
    (count) => count >= RECIPIENTS,
  );
  expect(repeated(receiver.names)).toEqual([]);
  expect(new Set(receiver.names).size).toBe(RECIPIENTS);
});
