import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import type { RealtimeMessage } from '../../src/domain/ground/bus/messages.ts';
import { discardToken } from '../../src/domain/people/tokens/discard.ts';
import { findInboxToken } from '../../src/domain/people/tokens/find-by-value.ts';
import { listTokens } from '../../src/domain/people/tokens/list.ts';
import { saveToken } from '../../src/domain/people/tokens/save.ts';
import { NEWEST } from '../../src/lib/cursor.ts';
import { newId } from '../../src/lib/ids.ts';
import { tokenCollection } from '../../src/providers/index.ts';
import { pathOfPage } from '../support/pages.ts';
import { type Caller, startTestService, type TestService } from '../support/service.ts';

const PATH = '/channels/in_app/inbox/tokens';
const value = (name: string) => name.padEnd(64, 'x');

let service: TestService;
const published: RealtimeMessage[] = [];

beforeAll(async () => {
  service = await startTestService();
  service.context.bus.subscribe((message) => published.push(message));
});
afterAll(() => service?.stop());

async function tokens(call: Caller): Promise<{ id: string; token: string; connection_id: string | null }[]> {
  const { status, body } = await call('GET', PATH);
  expect(status).toBe(200);
  return body.data;
}

const ownersOf = (name: string) =>
  service.context.db.query<{ user_id: string; token_id: string }>(
    sql('test_owners', 'select user_id, token_id from token_owners where hash = sha256($1)'),
    [Buffer.from(value(name))],
  );

describe('saving', () => {
  test('returns the payload without an id; the list has the record', async () => {
    const call = service.project.as('save-1');
    const saved = await call('PUT', PATH, { token: value('a') });
    expect([saved.status, saved.body]).toEqual([200, { token: value('a'), connection_id: null }]);
    const [record] = await tokens(call);
    expect(record).toEqual({
      id: expect.any(String),
      token: value('a'),
      connection_id: null,
      created_at: expect.stringMatching(/Z$/),
      updated_at: null,
      discarded_at: null,
    });
    expect((await call('GET', `${PATH}/${record?.id}`)).body).toEqual(record);
  });

  test('a repeated save makes no second record, but updates its connection', async () => {
    const call = service.project.as('save-2');
    await call('PUT', PATH, { token: value('b') });
    const [before] = await tokens(call);
    await call('PUT', PATH, { token: value('b') });
    expect(await tokens(call)).toEqual([before]);
    await call('PUT', PATH, { token: value('b'), connection_id: 'c-1' });
    const after = await tokens(call);
    expect(after).toMatchObject([{ id: before?.id, connection_id: 'c-1', updated_at: expect.any(String) }]);
  });

  test('a discarded token is active again under a new id; the former record stays discarded', async () => {
    const call = service.project.as('save-3');
    await call('PUT', PATH, { token: value('c') });
    const [former] = await tokens(call);
    const discarded = await call('DELETE', `${PATH}/${former?.id}`);
    expect(discarded.status).toBe(200);
    expect(await tokens(call)).toEqual([]);
    await call('PUT', PATH, { token: value('c') });
    const [now] = await tokens(call);
    expect(now?.id).not.toBe(former?.id);
    expect((await call('GET', `${PATH}/${former?.id}`)).body.discarded_at).toBe(discarded.body.discarded_at);
  });

  test('a token of another user moves, and the connection of the former user is closed', async () => {
    const [first, second] = [service.project.as('save-4'), service.project.as('save-5')];
    await first('PUT', PATH, { token: value('d') });
    const [former] = await tokens(first);
    await second('PUT', PATH, { token: value('d') });
    expect(await tokens(first)).toEqual([]);
    expect(await tokens(second)).toMatchObject([{ token: value('d') }]);
    expect((await first('GET', `${PATH}/${former?.id}`)).body.discarded_at).not.toBeNull();
    const closed = published.flatMap((message) =>
      message.type === 'token_discarded' ? [message.tokenId] : [],
    );
    expect(closed).toContain(former?.id);
    const found = await findInboxToken(service.context, service.project.id, value('d'));
    expect(found?.tokenId).toBe((await tokens(second))[0]?.id);
  });

  test('projects do not see each other’s tokens', async () => {
    const other = await service.createProject('other');
    await service.project.as('save-6')('PUT', PATH, { token: value('e') });
    await other.as('save-6')('PUT', PATH, { token: value('e') });
    expect(await tokens(service.project.as('save-6'))).toHaveLength(1);
    expect(await tokens(other.as('save-6'))).toHaveLength(1);
    expect(await findInboxToken(service.context, newId(), value('e'))).toBeUndefined();
  });

  test.each([
    ['too short', { token: 'x'.repeat(63) }, ["Param 'token'"]],
    ['too long', { token: 'x'.repeat(4097) }, ["Param 'token'"]],
    ['missing', {}, ["Param 'token' is missing"]],
    ['NUL and an unknown key', { token: `${value('n')}\0`, more: 1 }, ["Param 'token'", 'more']],
    ['a number for the connection', { token: value('n'), connection_id: 7 }, ["Param 'connection_id'"]],
  ])('rejects %s, with every problem', async (_what, body, named) => {
    const call = service.project.as('save-7');
    const response = await call('PUT', PATH, body);
    expect(response.status).toBe(422);
    for (const name of named) expect(JSON.stringify(response.body.errors)).toContain(name);
    expect(await tokens(call)).toEqual([]);
  });
});

describe('concurrent requests', () => {
  test('one user that saves one token creates one record', async () => {
    const call = service.project.as('race-1');
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        call('PUT', PATH, { token: value('f'), connection_id: `c${index % 2}` }),
      ),
    );
    expect(responses.every(({ status }) => status === 200)).toBe(true);
    expect(await tokens(call)).toHaveLength(1);
  });

  test('many users that save and discard one token leave it one owner and one active record', async () => {
    const calls = Array.from({ length: 8 }, (_, index) => service.project.as(`race-2-${index}`));
    for (let round = 0; round < 5; round += 1) {
      const responses = await Promise.all(
        calls.map(async (call, index) => {
          const saved = await call('PUT', PATH, { token: value('g') });
          const [mine] = index % 2 === 0 ? await tokens(call) : [];
          const discarded = mine && (await call('DELETE', `${PATH}/${mine.id}`));
          return [saved.status, discarded?.status ?? 200];
        }),
      );
      expect(responses.flat().every((status) => status === 200)).toBe(true);
    }
    await calls[0]?.('PUT', PATH, { token: value('g') });
    const active = (await Promise.all(calls.map(tokens))).flat();
    expect(active).toHaveLength(1);
    expect(await ownersOf('g')).toMatchObject([{ token_id: active[0]?.id }]);
  });
});

describe('more active tokens than a user may have', () => {
  const saveMany = async (call: Caller, names: readonly string[]) => {
    for (const name of names) expect((await call('PUT', PATH, { token: value(name) })).status).toBe(200);
  };
  const named = (prefix: string, count: number) =>
    Array.from({ length: count }, (_, index) => `${prefix}-${index}-`);
  const all = async (call: Caller) => (await call('GET', `${PATH}?limit=100`)).body;
  // A page of the list is as long as the maximum.
  const countActive = async (channel: string, sample: string) => {
    const [row] = await service.context.db.query<{ count: number }>(
      sql(
        'test_active',
        `select count(*)::int as count from tokens
        where discarded_at is null and channel = $1 and user_id = (select user_id from tokens where id = $2)`,
      ),
      [channel, sample],
    );
    return row?.count;
  };
  const discarded = () =>
    published.flatMap((message) => (message.type === 'token_discarded' ? [message.tokenId] : []));

  test('the oldest are discarded, with one event, closed, and free for others', async () => {
    const [call, other] = [service.project.as('many-1'), service.project.as('many-2')];
    const names = named('many', 103);
    await saveMany(call, names.slice(0, 3));
    const oldest = await tokens(call);
    await saveMany(other, ['bystander']);
    await saveMany(call, names.slice(3));
    const { data, links } = await all(call);
    expect(data.map(({ token }: { token: string }) => token)).toEqual(names.slice(3).reverse().map(value));
    expect(links.next ?? null).toBeNull();
    for (const { id } of oldest) {
      expect((await call('GET', `${PATH}/${id}`)).body.discarded_at).not.toBeNull();
      expect(discarded().filter((tokenId) => tokenId === id)).toHaveLength(1);
    }
    const events = await service.context.db.query<{ id: string }>(
      sql(
        'test_discards',
        `select details -> 'context' ->> 'token_id' as id from events
        where type = 'token.discarded' and user_ids = (select array[user_id] from tokens where id = $1)`,
      ),
      [oldest[0]?.id],
    );
    expect(events.map(({ id }) => id).sort()).toEqual(oldest.map(({ id }) => id).sort());
    expect(await ownersOf(names[0] ?? '')).toEqual([]);
    expect(await tokens(other)).toHaveLength(1);
    await saveMany(call, names.slice(100)); // known tokens do not count
    expect((await all(call)).data).toEqual(data);
  });

  test('five concurrent ones leave exactly the maximum', async () => {
    const call = service.project.as('many-3');
    await saveMany(call, named('parallel', 98));
    const late = named('late', 5);
    const responses = await Promise.all(late.map((name) => call('PUT', PATH, { token: value(name) })));
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    const { data } = await all(call);
    expect(await countActive(tokenCollection('inbox').collection, data[0].id)).toBe(100);
    const values = data.map(({ token }: { token: string }) => token);
    expect(values).toEqual(expect.arrayContaining(late.map(value)));
    expect(values).not.toContain(value('parallel-2-'));
    expect(values).toContain(value('parallel-3-'));
  });

  test("two users at the limit that take each other's tokens do not deadlock", async () => {
    const calls = [service.project.as('many-4'), service.project.as('many-5')] as const;
    const pools = [named('left', 101), named('right', 101)] as const;
    await Promise.all(calls.map((call, index) => saveMany(call, pools[index]?.slice(0, 100) ?? [])));
    // Each takes the other's oldest, which that user is about to discard, in both directions.
    for (let from = 0; from < 20; from += 5) {
      const responses = await Promise.all(
        [0, 1, 2, 3, 4].flatMap((step) => [
          calls[0]('PUT', PATH, { token: value(pools[1][from + step] ?? '') }),
          calls[1]('PUT', PATH, { token: value(pools[0][from + step] ?? '') }),
        ]),
      );
      expect(responses.filter(({ status }) => status !== 200)).toEqual([]);
    }
    // A token that another transaction held at that moment is discarded with the next save.
    for (const [index, call] of calls.entries()) {
      await saveMany(call, [`last-${index}-`]);
      expect(
        await countActive(tokenCollection('inbox').collection, (await all(call)).data[0].id),
      ).toBeLessThanOrEqual(100);
    }
  });

  test('a chat destination that becomes active again stays; the oldest other one is discarded', async () => {
    const { context, project } = service;
    const owner = { projectId: project.id, userId: newId() };
    const save = (name: string) =>
      saveToken(context, tokenCollection('slack'), owner, {
        oauth: { installation_id: 'I', channel_id: name, scope: '' },
      });
    const ids = async () => {
      const place = { direction: 'older', id: NEWEST, limit: 200 } as const;
      return (await listTokens(context.db, owner.userId, tokenCollection('slack').collection, place)).map(
        (row) => row.public_id,
      );
    };
    await save('C0');
    const [first] = await listTokens(context.db, owner.userId, tokenCollection('slack').collection, {
      direction: 'older',
      id: NEWEST,
      limit: 1,
    });
    await discardToken(context, tokenCollection('slack').collection, { ...owner, id: first?.id ?? '' });
    for (let index = 1; index <= 100; index += 1) await save(`C${index}`);
    await save('C0');
    const left = await ids();
    expect(left).toHaveLength(100);
    expect(left).toContain('I-C0');
    expect(left).not.toContain('I-C1');
  });
});

describe('discarding', () => {
  test('returns the time of the discard, also when repeated, and publishes it once', async () => {
    const call = service.project.as('gone-1');
    await call('PUT', PATH, { token: value('h') });
    const [token] = await tokens(call);
    const first = await call('DELETE', `${PATH}/${token?.id}`);
    expect([first.status, first.body]).toEqual([
      200,
      { id: token?.id, discarded_at: expect.stringMatching(/Z$/) },
    ]);
    expect((await call('DELETE', `${PATH}/${token?.id}`)).body).toEqual(first.body);
    expect(await findInboxToken(service.context, service.project.id, value('h'))).toBeUndefined();
    const closed = published.filter((one) => one.type === 'token_discarded' && one.tokenId === token?.id);
    expect(closed).toHaveLength(1);
  });

  test.each(['GET', 'DELETE'])(
    '%s of unknown, foreign or malformed ids, or for a project, is 404',
    async (method) => {
      const owner = service.project.as('gone-2');
      await owner('PUT', PATH, { token: value(`i${method}`) });
      const [token] = await tokens(owner);
      const other = service.project.as('gone-3');
      expect((await other(method, `${PATH}/${token?.id}`)).status).toBe(404);
      expect((await other(method, `${PATH}/${newId()}`)).status).toBe(404);
      expect((await other(method, `${PATH}/nonsense`)).status).toBe(400);
      expect((await service.project.call(method, `${PATH}/${token?.id}`)).status).toBe(403);
      expect((await fetch(`${service.address}/v2${PATH}/${token?.id}`, { method })).status).toBe(401);
      expect((await owner('GET', `${PATH}/${token?.id}`)).body.discarded_at).toBeNull();
    },
  );
});

test('the list is paged, newest first', async () => {
  const call = service.project.as('page-1');
  for (const name of ['p1', 'p2', 'p3']) await call('PUT', PATH, { token: value(name) });
  const first = await call('GET', `${PATH}?limit=2`);
  expect(first.body.data.map((one: { token: string }) => one.token)).toEqual([value('p3'), value('p2')]);
  const next = await call('GET', pathOfPage(first.body.links.next));
  expect(next.body.data.map((one: { token: string }) => one.token)).toEqual([value('p1')]);
  expect(next.body.links.next).toBeNull();
});

test('users may share a chat destination; each has it once', async () => {
  const { context, project } = service;
  const shared = { ...tokenCollection('inbox'), collection: 'test/shared', kind: 'shared' as const };
  const [one, two] = [newId(), newId()];
  const save = (userId: string) =>
    saveToken(context, shared, { projectId: project.id, userId }, { token: value('s') });
  await Promise.all([save(one), save(one), save(two), save(two)]);
  for (const userId of [one, two]) {
    const rows = await listTokens(context.db, userId, shared.collection, {
      direction: 'older',
      id: NEWEST,
      limit: 9,
    });
    expect(rows).toHaveLength(1);
  }
});

test('events contain the id of the token, never its secret', async () => {
  const rows = await service.context.db.query<{ type: string; details: string }>(
    sql('test_token_events', "select type, details from events where type like 'token.%'"),
  );
  expect(rows.map((row) => row.type)).toEqual(expect.arrayContaining(['token.saved', 'token.discarded']));
  expect(rows.every((row) => !row.details.includes('xxxxxxxx'))).toBe(true);
});
