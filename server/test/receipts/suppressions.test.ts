import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../../src/db/client.ts';
import { GRACE_MS, purgeUsers } from '../../src/domain/after/erasure/purge-users.ts';
import { AddressKeys } from '../../src/domain/ground/suppressions/address-keys.ts';
import { addSuppression } from '../../src/domain/ground/suppressions/change.ts';
import type { NewSuppression } from '../../src/domain/ground/suppressions/suppress.ts';
import { suppressAddresses } from '../../src/domain/ground/suppressions/suppress.ts';
import { findSuppressed } from '../../src/domain/ground/suppressions/suppressed.ts';
import { newId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { pathOfPage } from '../support/pages.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService();
  project = service.project;
});
afterAll(() => service?.stop());

type Entry = Partial<NewSuppression> & { address: string };

const filled = (one: Entry): NewSuppression => ({
  projectId: project.id,
  kind: 'email',
  reason: 'bounced',
  detail: null,
  provider: 'ses',
  ...one,
});

/** Suppresses as deliveries and receipts do. */
function suppress(...list: Entry[]): Promise<void> {
  const { db, addressKeys } = service.context;
  return db.transaction((tx) => suppressAddresses({ db: tx, addressKeys }, list.map(filled)));
}

const isSuppressed = async (address: string, kind: 'email' | 'phone' = 'email', of = project.id) =>
  (await findSuppressed(service.context, of, [{ kind, address }]))(kind, address);

const list = async (query = '', of = project) => (await of.call('GET', `/suppressions${query}`)).body.data;
const createUser = async (member: object, of = project): Promise<string> =>
  (await of.call('PUT', '/users', member)).body.id;

/** The types of a suppression's events, oldest first, and their data. */
async function recorded(
  id: string,
  of = project,
): Promise<{ types: string[]; contexts: unknown[]; all: string }> {
  const { body } = await of.call('GET', '/events?type=suppression.*&limit=100');
  const own = body.data
    .filter((event: { context: { suppression_id: string } }) => event.context.suppression_id === id)
    .reverse();
  return {
    types: own.map((event: { type: string }) => event.type),
    contexts: own.map((event: { context: unknown }) => event.context),
    all: JSON.stringify(own),
  };
}

/** A database that counts its statements, except for the first and last of a transaction. */
function counted(): { db: Pick<Database, 'query' | 'transaction'>; statements: string[] } {
  const { db } = service.context;
  const statements: string[] = [];
  const through = (to: Pick<Database, 'query'>): Pick<Database, 'query'> => ({
    query: (statement, values) => {
      statements.push(statement.name);
      return to.query(statement, values);
    },
  });
  return {
    db: { ...through(db), transaction: (work) => db.transaction((tx) => work(through(tx))) },
    statements,
  };
}

describe('suppressing an address', () => {
  test('applies to every spelling, in its own project alone', async () => {
    await suppress(
      { address: ' Ada@Example.com ' },
      { kind: 'phone', address: '+1 (500) 555-0001', reason: 'rejected' },
    );
    const found = await findSuppressed(service.context, project.id, [
      { kind: 'email', address: 'ADA@example.COM' },
      { kind: 'phone', address: '+15005550001' },
      { kind: 'email', address: 'other@example.com' },
    ]);
    expect(found('email', 'ada@example.com')).toMatchObject({ kind: 'email', reason: 'bounced' });
    expect(found('phone', '+1 500 555 0001')).toMatchObject({ kind: 'phone', reason: 'rejected' });
    expect(found('email', 'other@example.com')).toBeUndefined();
    const other = await service.createProject('other');
    expect(await isSuppressed('ada@example.com', 'email', other.id)).toBeUndefined();
    await suppress({ address: 'theirs@example.com', projectId: other.id });
    expect(await isSuppressed('ada@example.com', 'email', other.id)).toBeUndefined();
  });

  test('again keeps the record and the strongest reason', async () => {
    await createUser({ email: 'again@example.com' });
    await suppress({
      address: 'again@example.com',
      reason: 'rejected',
      provider: 'smtp',
      detail: 'no such user',
    });
    const [first] = await list('?query=again@example.com');
    await suppress({ address: 'Again@Example.com', reason: 'complained', detail: null });
    await suppress({ address: 'again@example.com', reason: 'bounced', provider: 'smtp', detail: 'later' });
    const [last] = await list('?query=again@example.com');
    expect(last).toEqual({
      ...first,
      reason: 'complained',
      provider: 'ses',
      detail: null,
      updated_at: expect.any(String),
    });
    expect(last.updated_at > first.updated_at).toBe(true);
    expect((await recorded(first.id)).types).toEqual(['suppression.added', 'suppression.updated']);
  });

  test('twice in one batch suppresses it once', async () => {
    await createUser({ email: 'twice@example.com' });
    await suppress(
      { address: 'twice@example.com', reason: 'rejected' },
      { address: 'TWICE@example.com', reason: 'complained', detail: 'spam' },
      { address: 'twice@example.com', reason: 'bounced' },
    );
    const found = await list('?query=twice@example.com');
    expect(found).toMatchObject([{ reason: 'complained', detail: 'spam' }]);
    expect((await recorded(found[0].id)).types).toEqual(['suppression.added']);
  });

  test("records events without the address, and stores the provider's reason without it", async () => {
    const userId = await createUser({ email: 'quiet@example.com' });
    await suppress({ address: 'quiet@example.com', userId, detail: '550 <Quiet@example.com> is unknown\0' });
    const [shown] = await list('?query=quiet@example.com');
    expect(shown).toMatchObject({ email: 'quiet@example.com', detail: '550 <[address]> is unknown' });
    const { contexts, all } = await recorded(shown.id);
    expect(contexts).toEqual([{ suppression_id: shown.id, kind: 'email', user_ids: [userId] }]);
    expect(all).not.toMatch(/quiet|550/i);
  });

  test('concurrently, in any order, makes one record of each and no deadlock', async () => {
    const crowd = await service.createProject('crowd');
    const addresses = Array.from({ length: 50 }, (_, number) => `crowd-${number}@example.com`);
    await Promise.all(
      Array.from({ length: 20 }, (_, at) => {
        const turned = [...addresses.slice(at), ...addresses.slice(0, at)];
        return suppress(...turned.map((address) => ({ address, projectId: crowd.id })));
      }),
    );
    expect(await list('?limit=100', crowd)).toHaveLength(50);
    expect((await crowd.call('GET', '/events?type=suppression.added&limit=100')).body.data).toHaveLength(50);
    for (const address of addresses)
      expect(await isSuppressed(address, 'email', crowd.id)).toMatchObject({ reason: 'bounced' });
  });

  test('in a transaction that rolls back leaves nothing, not even the key of the project', async () => {
    const undone = await service.createProject('undone');
    const { db, addressKeys } = service.context;
    const failing = db.transaction(async (tx) => {
      const one = filled({ address: 'undone@example.com', projectId: undone.id });
      await suppressAddresses({ db: tx, addressKeys }, [one]);
      await suppressAddresses({ db: tx, addressKeys }, [one]);
      expect(await findSuppressed({ db: tx, addressKeys }, undone.id, [one])).toSatisfy((found) =>
        Boolean(found('email', 'undone@example.com')),
      );
      throw new Error('undone');
    });
    await expect(failing).rejects.toThrow('undone');
    expect(await isSuppressed('undone@example.com', 'email', undone.id)).toBeUndefined();
    await suppress({ address: 'undone@example.com', projectId: undone.id });
    const afresh = { db, addressKeys: new AddressKeys(service.context) };
    const address = { kind: 'email' as const, address: 'undone@example.com' };
    const found = await findSuppressed(afresh, undone.id, [address]);
    expect(found('email', 'undone@example.com')).toMatchObject({ reason: 'bounced' });
  });

  test('does nothing if the key of the project cannot be opened, except for one log line', async () => {
    const shut = await service.createProject('shut');
    const other = await service.createProject('open');
    const [before, after] = ['before@example.com', 'after@example.com'];
    await suppress({ address: before, projectId: shut.id });
    const lines: string[] = [];
    const log = createLogger({ level: 'error', stream: { write: (line) => void lines.push(line) } });
    const { db } = service.context;
    const addressKeys = new AddressKeys({ sealer: createSealer([Buffer.alloc(32, 7)]), log });
    const found = await findSuppressed({ db, addressKeys }, shut.id, [{ kind: 'email', address: before }]);
    expect(found('email', before)).toBeUndefined();
    await db.transaction((tx) =>
      suppressAddresses({ db: tx, addressKeys }, [
        filled({ address: after, projectId: shut.id }),
        filled({ address: after, projectId: other.id }),
      ]),
    );
    const ids = (await list('', shut)).map(({ id }: { id: string }) => id);
    expect([await list('', other), ids]).toMatchObject([{ length: 1 }, { length: 1 }]);
    expect(lines.map((line) => JSON.parse(line).projectId)).toEqual([shut.id]);
    const byHand = addSuppression({ db, addressKeys }, shut.id, { email: after });
    await expect(byHand).rejects.toThrow('vanished after it was saved');
    // With the old key, everything works as before.
    const { log: silent, sealer } = service.context;
    const again = new AddressKeys({ sealer, log: silent });
    const known = await findSuppressed({ db, addressKeys: again }, shut.id, [
      { kind: 'email', address: before },
    ]);
    expect(known('email', before)).toMatchObject({ id: ids[0], reason: 'bounced' });
  });

  test('a thousand times takes as many statements as once, to write and to find', async () => {
    const { db, statements } = counted();
    const { addressKeys } = service.context;
    await suppress({ address: 'first@example.com' }); // now the key is cached
    const thousand = Array.from({ length: 1_000 }, (_, number) => `thousand-${number}@example.com`);
    await db.transaction((tx) =>
      suppressAddresses(
        { db: tx, addressKeys },
        thousand.map((address) => filled({ address })),
      ),
    );
    expect(statements.splice(0)).toEqual(['suppress_addresses', 'insert_events']);
    const addresses = thousand.map((address) => ({ kind: 'email' as const, address }));
    const found = await findSuppressed({ db, addressKeys }, project.id, addresses);
    expect(statements).toEqual(['find_suppressed_addresses']);
    expect(thousand.every((address) => found('email', address) !== undefined)).toBe(true);
  });

  test('stores a hash that reveals no address and differs between projects', async () => {
    const other = await service.createProject('same address');
    await suppress({ address: 'guess@example.com' }, { address: 'guess@example.com', projectId: other.id });
    const ids = [
      (await isSuppressed('guess@example.com'))?.id,
      (await isSuppressed('guess@example.com', 'email', other.id))?.id,
    ];
    const hashes = await service.rows<{ hash: string; plain: boolean }>(
      `select encode(hash, 'hex') as hash,
          hash in (sha256('email:guess@example.com'), sha256('guess@example.com')) as plain
      from suppressions
      where id = any ($1::uuid[])`,
      [ids],
    );
    expect(hashes).toHaveLength(2);
    expect(hashes[0]?.hash).not.toBe(hashes[1]?.hash);
    expect(hashes.map(({ plain }) => plain)).toEqual([false, false]);
  });
});

describe('an erased user', () => {
  const erase = async (...ids: string[]) => {
    for (const id of ids) expect((await project.call('DELETE', `/users/${id}`)).status).toBe(204);
    const later = { now: () => Date.now() + GRACE_MS + 60_000 };
    while (await purgeUsers({ ...service.context, clock: later }));
  };
  const inClear = async (...texts: string[]) =>
    (
      await service.rows<{ found: string }>(
        `select one as found
        from unnest($1::text[]) as one
        where exists (
          select from suppressions s where strpos(lower(s::text), one) > 0
        )`,
        [texts],
      )
    ).map(({ found }) => found);

  test('leaves no address in plain text, and stays suppressed', async () => {
    const id = await createUser({
      external_id: 'erased',
      email: 'Former@Erased.example',
      phone_numbers: ['+1 500 555 0101'],
    });
    await suppress(
      { address: 'former@erased.example', detail: 'reason of a provider' },
      { kind: 'phone', address: '+15005550101', reason: 'rejected', provider: 'twilio' },
      { kind: 'phone', address: '+15005550102', reason: 'rejected', provider: 'twilio', userId: id },
    );
    await createUser({ external_id: 'erased', email: 'now@erased.example', phone_numbers: ['+15005550101'] });
    await suppress({ address: 'now@erased.example' });
    await project.call('PUT', '/suppressions', { email: 'now@erased.example', note: 'a friend of mine' });
    await project.call('PUT', '/suppressions', { phone_number: '+15005550101' });
    const texts = ['erased.example', '15005550101', '15005550102', 'reason of a provider', 'a friend'];
    expect(await inClear(...texts)).toEqual(texts);
    await erase(id);
    expect(await inClear(...texts)).toEqual([]);
    for (const [kind, address] of [
      ['email', 'former@erased.example'],
      ['email', 'now@erased.example'],
      ['phone', '+15005550101'],
      ['phone', '+15005550102'],
    ] as const) {
      expect(await isSuppressed(address, kind), address).toMatchObject({ kind });
      expect(await list(`?query=${encodeURIComponent(address)}`), address).toMatchObject([
        { kind, email: null, phone_number: null, detail: null, note: null },
      ]);
    }
    expect(await service.rows('select 1 from suppressions where user_ids @> array[$1::uuid]', [id])).toEqual(
      [],
    );
  });

  test('is not stored again by later reports on their messages', async () => {
    const id = await createUser({ external_id: 'late', email: 'late@erased.example' });
    await erase(id);
    await suppress({ address: 'late@erased.example', userId: id, reason: 'complained' });
    expect(await isSuppressed('late@erased.example')).toMatchObject({ reason: 'complained' });
    expect(await inClear('late@erased.example')).toEqual([]);
  });

  test('keeps suppressions of addresses that another user has, too', async () => {
    const erased = await createUser({ external_id: 'gone', email: 'shared@erased.example' });
    await createUser({ external_id: 'gone', email: 'gone@erased.example' });
    const stays = await createUser({ external_id: 'stays', email: 'shared@erased.example' });
    await suppress(
      { address: 'shared@erased.example' },
      { kind: 'phone', address: '+15005550103', userId: erased },
      { kind: 'phone', address: '+15005550103', userId: stays },
    );
    await erase(erased);
    expect((await list('?query=shared@erased.example'))[0].email).toBe('shared@erased.example');
    expect((await list('?query=%2B15005550103'))[0].phone_number).toBe('+15005550103');
    await erase(stays);
    expect(await inClear('shared@erased.example', '15005550103')).toEqual([]);
  });
});

describe('the project', () => {
  test('adds, reads, changes and lifts a suppression', async () => {
    const { status, body } = await project.call('PUT', '/suppressions', {
      email: 'Hand@Example.com',
      note: 'by phone',
    });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      kind: 'email',
      email: 'hand@example.com',
      phone_number: null,
      reason: 'manual',
      provider: null,
      detail: null,
      note: 'by phone',
      created_at: expect.any(String),
      updated_at: body.created_at,
    });
    expect((await project.call('GET', `/suppressions/${body.id}`)).body).toEqual(body);
    expect(await list('?query=HAND@example.com')).toEqual([body]);
    expect(await isSuppressed('hand@example.com')).toMatchObject({ id: body.id, reason: 'manual' });

    // A suppression that is saved as it was read changes nothing and records no event.
    expect((await project.call('PUT', '/suppressions', body)).body).toEqual(body);
    const changed = await project.call('PUT', '/suppressions', { email: 'hand@example.com', note: null });
    expect(changed.body).toEqual({ ...body, note: null, updated_at: changed.body.updated_at });
    const kept = await project.call('PUT', '/suppressions', { email: 'hand@example.com' });
    expect(kept.body).toEqual(changed.body);

    expect((await project.call('DELETE', `/suppressions/${body.id}`)).status).toBe(204);
    expect((await project.call('DELETE', `/suppressions/${body.id}`)).status).toBe(404);
    expect((await project.call('GET', `/suppressions/${body.id}`)).status).toBe(404);
    expect(await isSuppressed('hand@example.com')).toBeUndefined();
    expect((await recorded(body.id)).types).toEqual([
      'suppression.added',
      'suppression.updated',
      'suppression.lifted',
    ]);
  });

  test('rejects a body that is no object, has no address or has two', async () => {
    const responseTo = async (body: unknown) => {
      const response = await project.call('PUT', '/suppressions', body);
      return [response.status, response.body.errors.map(({ message }: { message: string }) => message)];
    };
    for (const body of [[], [{ email: 'ada@example.com' }], '"ada@example.com"', 'null', undefined])
      expect(await responseTo(body)).toEqual([422, ["Param '(root)' must be an object"]]);
    for (const body of [{}, { email: null }, { email: 'ada@example.com', phone_number: '+15005550001' }])
      expect(await responseTo(body)).toEqual([
        422,
        ["Param '(root)' needs either an email or a phone_number"],
      ]);
  });

  test('adds a phone number in one spelling', async () => {
    const { body } = await project.call('PUT', '/suppressions', { phone_number: '+49 (30) 123-456' });
    expect(body).toMatchObject({ kind: 'phone', email: null, phone_number: '+4930123456', reason: 'manual' });
    const again = await project.call('PUT', '/suppressions', { phone_number: '+4930123456' });
    expect(again.body.id).toBe(body.id);
    // In a query, where a plus may mean a space.
    for (const query of ['+4930123456', '%2B4930123456', '%2B49%2030%20123456'])
      expect(await list(`?query=${query}`)).toMatchObject([{ id: body.id }]);
  });

  test('does not weaken a reason, but may strengthen it', async () => {
    await suppress({ address: 'reason@example.com', reason: 'bounced' });
    const weaker = await project.call('PUT', '/suppressions', { email: 'reason@example.com', note: 'known' });
    expect(weaker.body).toMatchObject({ reason: 'bounced', provider: 'ses', note: 'known' });
    const stronger = await project.call('PUT', '/suppressions', {
      email: 'reason@example.com',
      reason: 'complained',
    });
    expect(stronger.body).toMatchObject({ reason: 'complained', provider: null, note: 'known' });
    expect(stronger.body.id).toBe(weaker.body.id);
  });

  test('adds the address again to the suppression of an erased user', async () => {
    await suppress({ address: 'unknown@example.com' });
    const [hidden] = await list('?query=unknown@example.com');
    expect(hidden.email).toBeNull();
    const { body } = await project.call('PUT', '/suppressions', { email: 'unknown@example.com' });
    expect(body).toMatchObject({ id: hidden.id, email: 'unknown@example.com', reason: 'bounced' });
  });

  test('lists the newest first, by kind and by reason, page by page', async () => {
    const of = await service.createProject('listing');
    const ids: string[] = [];
    for (let number = 0; number < 9; number += 1) {
      const { body } = await of.call('PUT', '/suppressions', {
        ...(number % 3 === 0 ? { phone_number: `+4930123450${number}` } : { email: `${number}@example.com` }),
        reason: number % 2 === 0 ? 'bounced' : 'complained',
      });
      ids.unshift(body.id);
    }
    const idsOf = async (query: string) => (await list(query, of)).map(({ id }: { id: string }) => id);
    expect(await idsOf('')).toEqual(ids);
    const at = (wanted: (number: number) => boolean) => ids.filter((_, place) => wanted(8 - place));
    expect(await idsOf('?kind=phone')).toEqual(at((number) => number % 3 === 0));
    expect(await idsOf('?reason=complained')).toEqual(at((number) => number % 2 === 1));
    expect(await idsOf('?kind=email&reason=bounced')).toEqual(
      at((number) => number % 2 === 0 && number % 3 > 0),
    );
    expect(await idsOf('?reason=manual')).toEqual([]);
    const first = (await of.call('GET', '/suppressions?reason=bounced&limit=2')).body;
    const next = (await of.call('GET', pathOfPage(first.links.next))).body;
    const bounced = at((number) => number % 2 === 0);
    expect([...first.data, ...next.data].map(({ id }) => id)).toEqual(bounced.slice(0, 4));
    expect(next.links.prev).toContain('reason=bounced');
    const back = (await of.call('GET', pathOfPage(next.links.prev))).body;
    expect(back.data).toEqual(first.data);
    expect(await idsOf(`?query=1@example.com&kind=phone`)).toEqual([]);
    expect(await idsOf(`?query=1@example.com&reason=bounced`)).toEqual([]);
    expect(await idsOf(`?query=1@example.com&starting_after=${ids[7]}`)).toEqual([]);
    expect(await idsOf(`?query=1@example.com&ending_before=${ids[8]}`)).toEqual([ids[7]]);
    for (const query of ['@', 'unknown@example.com', '+', 'ada', '1@example'])
      expect(await idsOf(`?query=${encodeURIComponent(query)}`)).toEqual([]);
  });

  test.each([
    [{}, ["Param '(root)' needs either an email or a phone_number"]],
    [{ email: null }, ["Param '(root)' needs either an email or a phone_number"]],
    [
      { email: 'a@example.com', phone_number: '+15005550009' },
      ["Param '(root)' needs either an email or a phone_number"],
    ],
    [{ email: 'nonsense' }, ["Param 'email' must be an e-mail address"]],
    ...['5005550009', '+1', '+1 ----', '+1 (500) 555-0009 ext 1', `+${'1'.repeat(16)}`, '+١٢٣٤'].map(
      (phone_number): [object, string[]] => [
        { phone_number },
        ["Param 'phone_number' must be a phone number in international form, such as +15005550001"],
      ],
    ),
    [
      { email: 'a@example.com', reason: 'because' },
      ["Param 'reason' must be one of: manual, rejected, bounced, unsubscribed, complained"],
    ],
    [{ email: 'a@example.com', note: 'x'.repeat(1_001) }, ["Param 'note' must have at most 1000 characters"]],
    [{ email: 'a@example.com', wrong: 1 }, ["Param '(root)' doesn't allow key: wrong"]],
  ])('reports the problem with %j, and nothing is saved', async (body, messages) => {
    const before = await service.rows('select count(*) from suppressions');
    const response = await project.call('PUT', '/suppressions', body);
    expect(response.status).toBe(422);
    expect(response.body.errors.map(({ message }: { message: string }) => message)).toEqual(messages);
    expect(await service.rows('select count(*) from suppressions')).toEqual(before);
  });

  test('needs the Project JWT of its own project', async () => {
    const stranger = await service.createProject('stranger');
    const { body } = await project.call('PUT', '/suppressions', { email: 'own@example.com' });
    for (const method of ['GET', 'DELETE'])
      expect((await stranger.call(method, `/suppressions/${body.id}`)).status).toBe(404);
    expect(await list('?query=own@example.com', stranger)).toEqual([]);
    expect((await project.as('ada')('GET', '/suppressions')).status).toBe(403);
    expect((await project.call('GET', '/suppressions/nonsense')).body.errors[0].code).toBe('invalid_id');
    expect((await project.call('DELETE', `/suppressions/${newId()}`)).status).toBe(404);
    expect((await project.call('GET', `/suppressions/${body.id}`)).status).toBe(200);
  });
});
