import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Database, type Queryable, type Statement, sql } from '../../src/db/client.ts';
import type { RealtimeMessage } from '../../src/domain/ground/bus/messages.ts';
import { TokenDiscarder } from '../../src/domain/people/tokens/discard-gone.ts';
import type { GoneToken } from '../../src/domain/people/tokens/gone-token.ts';
import { saveToken } from '../../src/domain/people/tokens/save.ts';
import { newId } from '../../src/lib/ids.ts';
import { tokenCollection } from '../../src/providers/index.ts';
import { startTestService, type TestService, until } from '../support/service.ts';

let service: TestService;
const published: RealtimeMessage[] = [];

beforeAll(async () => {
  service = await startTestService({ pollMs: 50 });
  service.context.bus.subscribe((message) => published.push(message));
});
afterAll(() => service?.stop());

const value = (name: string) => name.padEnd(64, 'x');
const projectId = () => service.project.id;

async function saveDevice(userId: string, name: string, of = projectId()): Promise<void> {
  await saveToken(
    service.context,
    tokenCollection('fcm'),
    { projectId: of, userId },
    { device_token: value(name) },
  );
}
type Chat = { installation: string; channel: string };
async function saveChat(
  userId: string,
  { installation, channel }: Chat,
  kind = tokenCollection('slack'),
  of = projectId(),
): Promise<void> {
  const oauth = { installation_id: installation, channel_id: channel };
  await saveToken(service.context, kind, { projectId: of, userId }, { oauth });
}

interface Stored {
  id: string;
  public_id: string | null;
  updated_at: Date | null;
  discarded_at: Date | null;
}
const tokensOf = (userId: string) =>
  service.rows<Stored>(
    'select id, public_id, updated_at, discarded_at from tokens where user_id = $1 order by id',
    [userId],
  );
const activeOf = async (userId: string) =>
  (await tokensOf(userId)).filter(({ discarded_at }) => discarded_at === null);
const ownersOf = (name: string) =>
  service.rows<{ user_id: string; token_id: string }>(
    'select user_id, token_id from token_owners where project_id = $1 and hash = sha256($2)',
    [projectId(), Buffer.from(value(name))],
  );
const eventsOf = (userId: string) =>
  service.rows<{ type: string; details: string }>(
    'select type, details from events where user_ids = array[$1::uuid] order by id',
    [userId],
  );
const discardsOf = async (userId: string) =>
  (await eventsOf(userId)).filter(({ type }) => type === 'token.discarded');

async function goneToken(userId: string, more: Partial<GoneToken> = {}): Promise<GoneToken> {
  const [token] = await tokensOf(userId);
  if (token === undefined) throw new Error('the user has no token');
  return {
    projectId: projectId(),
    userId,
    tokenId: token.id,
    channel: 'mobile_push/fcm',
    scope: 'token',
    reason: 'the app is not installed any more',
    ...more,
  };
}

/**
 * A time after everything so far and before all that follows, in whole milliseconds as providers report it.
 */
async function moment(): Promise<Date> {
  const [{ at } = { at: new Date(Number.NaN) }] = await service.rows<{ at: Date }>(
    "select date_trunc('milliseconds', clock_timestamp()) + interval '1 ms' as at",
  );
  await until(
    () => service.rows<{ over: boolean }>('select clock_timestamp() > $1 as over', [at]),
    ([row]) => row?.over === true,
  );
  return at;
}

const discarder = (db: Pick<Database, 'query' | 'transaction'> = service.context.db) =>
  new TokenDiscarder({ ...service.context, db });
async function discardNow(...list: GoneToken[]): Promise<void> {
  await discarder().discard(list);
}

/** A database that calls a function before each statement. */
function watched(before: (statement: Statement, values: readonly unknown[], of: Queryable) => unknown) {
  const { db } = service.context;
  const through = (to: Queryable): Queryable => ({
    async query(statement, values = []) {
      await before(statement, values, to);
      return to.query(statement, values);
    },
  });
  return {
    ...through(db),
    transaction: <R>(work: (tx: Queryable) => Promise<R>) => db.transaction((tx) => work(through(tx))),
  };
}

describe('a token that a provider reports as gone', () => {
  test('is discarded although another of its batch cannot be', async () => {
    const userId = newId();
    await saveDevice(userId, 'gone-beside');
    const own = discarder();
    const list = [await goneToken(userId), await goneToken(userId, { tokenId: 'no id' })];
    const [discarded, other] = await Promise.allSettled(list.map((one) => own.discard([one])));
    expect([discarded?.status, other?.status]).toEqual(['fulfilled', 'rejected']);
    expect(await activeOf(userId)).toEqual([]);
  });

  test('is discarded, with the reason in its event, and published after the commit', async () => {
    const userId = newId();
    await saveDevice(userId, 'gone-1');
    const token = await goneToken(userId, { code: '404 UNREGISTERED' });
    await discardNow(token);
    expect(await tokensOf(userId)).toMatchObject([{ id: token.tokenId, discarded_at: expect.any(Date) }]);
    expect(await ownersOf('gone-1')).toEqual([]);
    const discards = await discardsOf(userId);
    expect(discards.map(({ details }) => JSON.parse(details))).toEqual([
      {
        log: 'the app is not installed any more',
        code: '404 UNREGISTERED',
        context: { channel: 'mobile_push/fcm', token_id: token.tokenId },
      },
    ]);
    expect(published).toContainEqual({ type: 'token_discarded', userId, tokenId: token.tokenId });
  });

  test('appears so in the list of events', async () => {
    const { body: user } = await service.project.call('PUT', '/users', { external_id: 'shown' });
    await saveDevice(user.id, 'gone-shown');
    await discardNow(await goneToken(user.id, { code: '404 UNREGISTERED' }));
    const { body } = await service.project.call('GET', '/events?type=token.discarded&limit=1');
    expect(body.data).toMatchObject([
      {
        code: 404,
        log: 'the app is not installed any more',
        context: { user_id: user.id, channel: 'mobile_push/fcm', code: '404 UNREGISTERED' },
      },
    ]);
  });

  test('remains if it was saved after that time, even unchanged; other tokens are discarded', async () => {
    const userId = newId();
    await saveDevice(userId, 'gone-2');
    const at = await moment();
    await saveDevice(userId, 'gone-2');
    expect((await tokensOf(userId)).map(({ updated_at }) => updated_at)).toEqual([null]);
    await discardNow(await goneToken(userId, { goneAt: at }));
    expect(await activeOf(userId)).toHaveLength(1);
    expect(await ownersOf('gone-2')).toHaveLength(1);
    expect(await discardsOf(userId)).toEqual([]);
    await discardNow(await goneToken(userId, { goneAt: new Date(Date.now() + 60_000) }));
    expect(await activeOf(userId)).toEqual([]);
  });

  test('with several reports in one batch is discarded by the one that applies', async () => {
    const [early, never] = [newId(), newId()];
    for (const userId of [early, never]) await saveDevice(userId, `gone-3-${userId}`);
    const old = { goneAt: new Date(0) };
    await discardNow(
      await goneToken(early, old),
      await goneToken(early),
      await goneToken(early, old),
      await goneToken(never, old),
    );
    expect(await activeOf(early)).toEqual([]);
    expect(await discardsOf(early)).toHaveLength(1);
    expect(await activeOf(never)).toHaveLength(1);
  });

  test('that two nodes report at once, in any order, is discarded once', async () => {
    const users = Array.from({ length: 60 }, () => newId());
    for (const userId of users) {
      await saveDevice(userId, `node-${userId}`);
      await saveChat(userId, { installation: 'A9-T9', channel: userId.slice(-4) });
    }
    const all: GoneToken[] = [];
    for (const userId of users)
      for (const { id } of await tokensOf(userId)) all.push(await goneToken(userId, { tokenId: id }));
    const nodes = Array.from({ length: 4 }, () => discarder());
    await Promise.all(
      nodes.map((node, at) => node.discard([...all.slice(at * 30), ...all.slice(0, at * 30)].toReversed())),
    );
    for (const userId of users) {
      expect(await activeOf(userId)).toEqual([]);
      expect(await discardsOf(userId)).toHaveLength(2);
    }
  });

  /** Discards, and starts another action when the discard reaches this statement. */
  async function meanwhile(during: string, token: GoneToken, work: () => Promise<unknown>): Promise<void> {
    let other: Promise<unknown> | undefined;
    const db = watched(({ name }) => {
      if (name === during) other ??= work();
    });
    await discarder(db).discard([token]);
    expect(other).toBeDefined();
    await other;
  }
  const STATEMENTS = ['lock_owners_of_gone_tokens', 'discard_gone_tokens', 'insert_events'];

  test.each(STATEMENTS)(
    'remains with another user who takes the device over meanwhile, from %s on',
    async (during) => {
      for (let round = 0; round < 15; round += 1) {
        const [first, second] = [newId(), newId()];
        const name = `moved-${round}-${during}`;
        await saveDevice(first, name);
        await meanwhile(during, await goneToken(first), () => saveDevice(second, name));
        expect(await activeOf(first)).toEqual([]);
        expect(await discardsOf(first)).toHaveLength(1);
        const [now, ...others] = await activeOf(second);
        expect(others).toEqual([]);
        expect(await ownersOf(name)).toEqual([{ user_id: second, token_id: now?.id }]);
      }
    },
  );

  test.each(STATEMENTS)('remains, once, if its user saves it meanwhile, from %s on', async (during) => {
    for (let round = 0; round < 15; round += 1) {
      const userId = newId();
      const name = `again-${round}-${during}`;
      await saveDevice(userId, name);
      const token = await goneToken(userId, { goneAt: await moment() });
      await meanwhile(during, token, () => Promise.all([saveDevice(userId, name), saveDevice(userId, name)]));
      const active = await activeOf(userId);
      expect(active).toHaveLength(1);
      expect(await ownersOf(name)).toEqual(active.map(({ id }) => ({ user_id: userId, token_id: id })));
      // In either order, it was discarded as often as another record was created.
      expect(await discardsOf(userId)).toHaveLength((await tokensOf(userId)).length - 1);
    }
  });

  test('and thousands more take three statements', async () => {
    const users = await many(1_000, 'mobile_push/fcm');
    const statements: string[] = [];
    const one = discarder(watched(({ name }) => statements.push(name)));
    await one.discard(
      users.map(({ userId, tokenId }) => ({ ...TOKEN, projectId: projectId(), userId, tokenId })),
    );
    expect(statements).toEqual(['lock_owners_of_gone_tokens', 'discard_gone_tokens', 'insert_events']);
    const [left] = await service.rows(
      `select count(*)::int as count from tokens where user_id = any ($1::uuid[])
        and discarded_at is null`,
      [users.map(({ userId }) => userId)],
    );
    expect(left).toEqual({ count: 0 });
  });

  test('is stored before the delivery ends, even after a database outage', async () => {
    const [first, second] = [newId(), newId()];
    for (const userId of [first, second]) await saveDevice(userId, `end-${userId}`);
    let failures = 2;
    const one = discarder(
      watched(() => {
        if (failures-- > 0) throw Object.assign(new Error('the database is away'), { code: '57P01' });
      }),
    );
    const done = one.discard([await goneToken(first)]);
    await done;
    expect(await activeOf(first)).toEqual([]);
    one.add([await goneToken(second)]);
    await one.close();
    expect(await activeOf(second)).toEqual([]);
    expect(failures).toBeLessThan(0);
  });

  test('is logged if it cannot be stored, and the delivery still ends', async () => {
    const warnings: unknown[] = [];
    const userId = newId();
    await saveDevice(userId, 'warned');
    const one = new TokenDiscarder({
      ...service.context,
      db: watched(() => {
        throw new Error('broken');
      }),
      log: { warn: (...args: unknown[]) => warnings.push(args) } as never,
    });
    one.add([await goneToken(userId)]);
    await one.close();
    expect(warnings).toHaveLength(1);
    expect(await activeOf(userId)).toHaveLength(1);
  });
});

const TOKEN = { channel: 'mobile_push/fcm', scope: 'token', reason: 'gone' } as const;

/** Stores this many tokens with unsealed placeholders: no test opens them. */
async function many(
  count: number,
  channel: string,
  { installation, of = projectId() }: { installation?: string; of?: string } = {},
): Promise<{ userId: string; tokenId: string }[]> {
  const made = await service.rows<{ user_id: string; id: string }>(
    `with made as (
      insert into tokens (user_id, id, project_id, channel, public_id, hash, sealed_data, created_at)
      select gen_random_uuid(), gen_random_uuid(), $1, $2, $3::text || '-C' || n,
                sha256(gen_random_uuid()::text::bytea), '', now()
      from generate_series(1, $4::int) n
      returning user_id, id, project_id, channel, hash, public_id
    ),
    owned as (
      insert into token_owners (project_id, channel, hash, user_id, token_id)
      select project_id, channel, hash, user_id, id from made where public_id is null
    )
    select user_id, id from made`,
    [of, channel, installation ?? null, count],
  );
  return made.map(({ user_id, id }) => ({ userId: user_id, tokenId: id }));
}

describe('an installation that a provider reports as gone', () => {
  const whole = async (userId: string, installationId: string, more: Partial<GoneToken> = {}) =>
    goneToken(userId, { scope: 'installation', channel: 'slack', installationId, ...more });
  const publicIds = async (...users: string[]) =>
    (await Promise.all(users.map(activeOf))).flat().map(({ public_id }) => public_id);

  test('discards all tokens that post through it, and no others', async () => {
    const [first, second, third] = [newId(), newId(), newId()];
    const other = await service.createProject('another workspace');
    await saveChat(first, { installation: 'A1_%-T1', channel: 'C1' });
    await saveChat(second, { installation: 'A1_%-T1', channel: 'C1' });
    await saveChat(second, { installation: 'A1_%-T1', channel: 'C2' });
    const kept: [string, Chat][] = [
      [first, { installation: 'A1_%-T10', channel: 'C1' }],
      [first, { installation: 'A1xy-T1', channel: 'C1' }],
      [second, { installation: 'A1_%-T1-T2', channel: 'C1' }], // looks like a longer installation id
      [second, { installation: 'A1_%', channel: 'T1' }],
      [second, { installation: 'a1_%-t1', channel: 'C1' }],
    ];
    for (const [userId, chat] of kept) await saveChat(userId, chat);
    await saveChat(second, { installation: 'A1_%-T1', channel: 'C1' }, tokenCollection('slackbot'));
    await saveChat(third, { installation: 'A1_%-T1', channel: 'C1' }, tokenCollection('slack'), other.id);
    await discardNow(await whole(first, 'A1_%-T1'));
    expect((await publicIds(first, second, third)).sort()).toEqual(
      [
        ...kept.map(([, { installation, channel }]) => `${installation}-${channel}`),
        'A1_%-T1-C1', // of the other app
        'A1_%-T1-C1', // of the other project
      ].sort(),
    );
    expect(await discardsOf(second)).toHaveLength(2);
  });

  test('keeps tokens that were saved after that time', async () => {
    const [before, after] = [newId(), newId()];
    await saveChat(before, { installation: 'A2-T2', channel: 'C1' });
    await saveChat(after, { installation: 'A2-T2', channel: 'C2' });
    const at = await moment();
    await saveChat(after, { installation: 'A2-T2', channel: 'C2' });
    await discardNow(await whole(before, 'A2-T2', { goneAt: at }));
    expect(await publicIds(before, after)).toEqual(['A2-T2-C2']);
  });

  test('with thousands of users is discarded page by page', async () => {
    const made = await many(2_500, 'slack', { installation: 'A3-T3' });
    const statements: string[] = [];
    const [{ userId, tokenId } = { userId: '', tokenId: '' }] = made;
    await discarder(watched(({ name }) => statements.push(name))).discard([
      {
        projectId: projectId(),
        userId,
        tokenId,
        channel: 'slack',
        scope: 'installation',
        installationId: 'A3-T3',
        reason: 'the app was removed',
      },
    ]);
    expect(statements.filter((name) => name === 'tokens_of_gone_installation')).toHaveLength(3);
    expect(statements.filter((name) => name === 'insert_events').length).toBeLessThanOrEqual(4);
    const [left] = await service.rows(
      `select count(*)::int as count from tokens where project_id = $1 and public_id like 'A3-T3-%'
        and discarded_at is null`,
      [projectId()],
    );
    expect(left).toEqual({ count: 0 });
    expect(
      await service.rows(
        `select count(*)::int as count from events where type = 'token.discarded'
          and details ->> 'log' = 'the app was removed'`,
      ),
    ).toEqual([{ count: 2_500 }]);
  });
});

test('reads only the discarded tokens among fifty thousand', async () => {
  const of = newId();
  const goneTokens = await many(40, 'mobile_push/fcm', { of });
  await many(30_000, 'mobile_push/fcm', { of });
  const [{ userId, tokenId } = { userId: '', tokenId: '' }] = await many(40, 'slack', {
    of,
    installation: 'A4-T4',
  });
  await many(20_000, 'slack', { of, installation: 'A5-T5' });
  await service.rows('analyze tokens');
  await service.rows('analyze token_owners');
  const plans = new Map<string, { read: number; kinds: string[] }>();
  const db = watched(async ({ name, text }, values, through) => {
    // Explain analyze runs the statement, so its changes are rolled back.
    if (name === 'insert_events' || plans.has(name)) return;
    await through.query(sql('', 'savepoint before_explain')).catch(() => undefined);
    const [row] = await through.query<{ 'QUERY PLAN': string }>(
      sql('', `explain (analyze, format json) ${text}`),
      values,
    );
    await through.query(sql('', 'rollback to savepoint before_explain')).catch(() => undefined);
    plans.set(name, readBy(JSON.parse(row?.['QUERY PLAN'] ?? '[]')[0].Plan));
  });
  await discarder(db).discard([
    ...goneTokens.map((one) => ({ ...TOKEN, ...one, projectId: of })),
    {
      ...TOKEN,
      projectId: of,
      channel: 'slack',
      scope: 'installation',
      userId,
      tokenId,
      installationId: 'A4-T4',
    },
  ]);
  expect([...plans.keys()].sort()).toEqual([
    'discard_gone_tokens',
    'lock_owners_of_gone_tokens',
    'tokens_of_gone_installation',
  ]);
  for (const [name, { read, kinds }] of plans) {
    expect(kinds, name).not.toContain('Seq Scan');
    expect(read, name).toBeLessThan(500);
  }
});

interface Node {
  'Node Type': string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: Node[];
}

/** The rows that the table scans of a plan read, and how. */
function readBy(root: Node): { read: number; kinds: string[] } {
  const nodes = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodes)];
  const scans = nodes(root).filter(
    ({ 'Node Type': kind }) => / Scan$/.test(kind) && !/^(Function|CTE|Sub)/.test(kind),
  );
  return {
    kinds: scans.map((node) => node['Node Type']),
    read: scans.reduce(
      (sum, node) =>
        sum + (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'],
      0,
    ),
  };
}
