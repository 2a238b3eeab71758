import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { TokenDiscarder } from '../../src/domain/people/tokens/discard-gone.ts';
import { newId } from '../../src/lib/ids.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';

let it: TestService;
let discarder: TokenDiscarder;
beforeAll(async () => {
  it = await startTestService();
  const { db, bus, log } = it.context;
  discarder = new TokenDiscarder({ db, bus, log });
});
afterAll(async () => {
  await discarder?.close();
  await it?.stop();
});

// A device belongs to one user of a project; a chat may belong to several.
const COLLECTIONS = ['mobile_push/fcm', 'mobile_push/apns', 'teams'] as const;
type Collection = (typeof COLLECTIONS)[number];
const PLATFORMS = { 'mobile_push/fcm': 'android', 'mobile_push/apns': 'ios' } as const;
const USERS = ['ada', 'grace', 'joan'] as const;

const deviceToken = (value: number) => `device-${value}`.padEnd(64, 'x');
const bodyOf = (collection: Collection, value: number) =>
  collection === 'teams'
    ? { webhook: { url: `${it.address}/chats/${value}` } }
    : { device_token: deviceToken(value) };

/** A record, as the model has it. */
interface Modelled {
  id: string;
  user: number;
  collection: Collection;
  value: number;
  isActive: boolean;
}

/** The tokens of the users of a project, and what they should be. */
class Tokens {
  readonly #project: TestProject;
  readonly #userIds: readonly string[];
  readonly #records: Modelled[] = [];
  /** The events that should be recorded, oldest first: `token.saved <id>`. */
  readonly #events: string[] = [];

  constructor(project: TestProject, userIds: readonly string[]) {
    this.#project = project;
    this.#userIds = userIds;
  }

  static async create(): Promise<Tokens> {
    const project = await it.createProject(`tokens ${newId()}`);
    const userIds: string[] = [];
    for (const external_id of USERS)
      userIds.push((await project.call('PUT', '/users', { external_id })).body.id);
    return new Tokens(project, userIds);
  }

  as = (user: number) => this.#project.as(USERS[user] ?? '');
  asInV1 = (user: number) => this.#project.v1As(USERS[user] ?? '');

  /** Saves a token by v2, or a device by v1. */
  async save({ user, collection, value, byV1 }: Save): Promise<void> {
    if (byV1 && collection !== 'teams') {
      const device = { device_token: deviceToken(value), platform: PLATFORMS[collection] };
      const { status } = await this.asInV1(user)('POST', '/push_subscriptions', {
        push_subscription: device,
      });
      expect(status).toBe(201);
    } else {
      const body = bodyOf(collection, value);
      const response = await this.as(user)('PUT', `/channels/${collection}/tokens`, body);
      expect([response.status, response.body]).toEqual([200, body]);
    }
    const active = this.#active(collection, value);
    if (active.some((one) => one.user === user)) return; // nothing has changed
    if (collection !== 'teams') for (const one of active) this.#discard(one);
    const listed = await this.#list(user, collection);
    const id = listed.find((one) => !this.#records.some((known) => known.id === one)) ?? '';
    expect(id).not.toBe('');
    this.#records.push({ id, user, collection, value, isActive: true });
    this.#events.push(`token.saved ${id}`);
  }

  /** Discards a record by v2 as a user: only its owner can. */
  async discard({ user, which }: { user: number; which: number }): Promise<void> {
    const record = this.#records[which % (this.#records.length || 1)];
    const { id, collection } = record ?? { id: newId(), collection: 'teams' };
    const { status, body } = await this.as(user)('DELETE', `/channels/${collection}/tokens/${id}`);
    if (record?.user !== user) {
      expect(status).toBe(404);
      return;
    }
    expect([status, body]).toEqual([200, { id, discarded_at: expect.any(String) }]);
    if (record.isActive) this.#discard(record);
  }

  /** Unregisters a device by v1, on all platforms. */
  async unregister({ user, value }: { user: number; value: number }): Promise<void> {
    const { status } = await this.asInV1(user)('DELETE', `/push_subscriptions/${deviceToken(value)}`);
    const found = this.#records.filter(
      (one) => one.isActive && one.user === user && one.value === value && one.collection !== 'teams',
    );
    expect(status).toBe(found.length > 0 ? 204 : 404);
    for (const one of found) this.#discard(one);
  }

  /** A provider reports that a token is gone: since now, or since before it was saved. */
  async gone({ which, isOutdated }: { which: number; isOutdated: boolean }): Promise<void> {
    const record = this.#records[which % (this.#records.length || 1)];
    if (record === undefined) return;
    const { id: tokenId, collection: channel, user } = record;
    const of = { projectId: this.#project.id, userId: this.#userIds[user] ?? '', tokenId, channel };
    const goneAt = isOutdated ? { goneAt: new Date(0) } : {};
    await discarder.discard([{ ...of, scope: 'token', reason: 'not registered', ...goneAt }]);
    if (record.isActive && !isOutdated) this.#discard(record);
  }

  /** Every list and record equals that of the model, and so do the events. */
  async check(): Promise<void> {
    for (const [user] of USERS.entries())
      for (const collection of COLLECTIONS) {
        const newestFirst = this.#records
          .filter((one) => one.isActive && one.user === user && one.collection === collection)
          .reverse();
        expect(await this.#list(user, collection)).toEqual(newestFirst.map(({ id }) => id));
      }
    for (const { id, user, collection, value, isActive } of this.#records) {
      const { body } = await this.as(user)('GET', `/channels/${collection}/tokens/${id}`);
      expect(body).toMatchObject({ id, ...bodyOf(collection, value) });
      expect(body.discarded_at === null).toBe(isActive);
      const other = this.as((user + 1) % USERS.length);
      expect((await other('GET', `/channels/${collection}/tokens/${id}`)).status).toBe(404);
    }
    const events = await it.context.db.query<{ event: string }>(selectEvents, [this.#project.id]);
    expect(events.map(({ event }) => event).sort()).toEqual(this.#events.toSorted());
  }

  async #list(user: number, collection: Collection): Promise<string[]> {
    const { body } = await this.as(user)('GET', `/channels/${collection}/tokens`);
    return body.data.map(({ id }: { id: string }) => id);
  }

  #active(collection: Collection, value: number): Modelled[] {
    return this.#records.filter(
      (one) => one.isActive && one.collection === collection && one.value === value,
    );
  }

  #discard(record: Modelled): void {
    record.isActive = false;
    this.#events.push(`token.discarded ${record.id}`);
  }
}

interface Save {
  user: number;
  collection: Collection;
  value: number;
  byV1: boolean;
}

const selectEvents = sql(
  '',
  `select type || ' ' || (details::jsonb #>> '{context,token_id}') as event
  from events
  where project_id = $1 and type like 'token.%'`,
);

const user = fc.nat({ max: USERS.length - 1 });
const value = fc.nat({ max: 2 });
const which = fc.nat({ max: 9 });
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('save' as const),
      ...{ user, collection: fc.constantFrom(...COLLECTIONS), value, byV1: fc.boolean() },
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('discard' as const), user, which }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('unregister' as const), user, value }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('gone' as const), which, isOutdated: fc.boolean() }),
  },
);

test('after any changes by any interface, the tokens of all users equal the model', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
      const tokens = await Tokens.create();
      for (const one of steps) {
        if (one.do === 'save') await tokens.save(one);
        else if (one.do === 'discard') await tokens.discard(one);
        else if (one.do === 'unregister') await tokens.unregister(one);
        else await tokens.gone(one);
      }
      await tokens.check();
    }),
    { numRuns: 20 },
  );
});
