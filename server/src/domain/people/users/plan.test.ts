import { describe, expect, test } from 'vitest';
import { identityKey } from '../../ground/identities/identities.ts';
import { type KnownUser, type Person, type Plan, planUsers } from './plan.ts';

const projectId = 'p';

/** A world with the users that are named, each `id: [external id, e-mail]`. */
function world(
  users: Record<string, [string | null, string | null]>,
  { deleted = [], restoring = false }: { deleted?: string[]; restoring?: boolean } = {},
) {
  const owners = new Map<string, string>();
  const details = new Map<string, KnownUser>();
  for (const [id, [externalId, email]] of Object.entries(users)) {
    if (externalId !== null) owners.set(identityKey(projectId, 'external_id', externalId), id);
    if (email !== null) owners.set(identityKey(projectId, 'email', email), id);
    details.set(id, { id, externalId, email });
  }
  let made = 0;
  return {
    owner: (key: string) => owners.get(key),
    known: (id: string) => details.get(id),
    isDeleted: (id: string) => deleted.includes(id),
    restoring,
    newId: () => {
      made += 1;
      return `new${made}`;
    },
  };
}

const named = (externalId?: string, email?: string): Person => ({ projectId, externalId, email });

type Users = Record<string, [string | null, string | null]>;

function plan(users: Users, ...people: Person[]) {
  return inShort(planUsers(people, world(users)));
}

function inShort(made: Plan) {
  return {
    users: made.userIds,
    created: [...made.created.keys()],
    added: [...made.addedKeys.values()].map((key) => `${key.kind} ${key.value} -> ${key.userId}`).sort(),
    removed: [...made.removedKeys.values()].map((key) => `${key.kind} ${key.value} -> ${key.userId}`),
    changed: Object.fromEntries(made.changed),
    conflicts: made.conflicts.map((conflict) => conflict.person),
  };
}

const nothing = { created: [], added: [], removed: [], changed: {}, conflicts: [] };

describe('who is who', () => {
  test('a known user is found by external id, by address in any case, and by both', () => {
    const users = { u: ['1', 'ada@example.com'] } as Record<string, [string, string]>;
    expect(
      plan(users, named('1'), named(undefined, 'ADA@example.com'), named('1', 'ada@Example.com')),
    ).toEqual({
      ...nothing,
      users: ['u', 'u', 'u'],
    });
  });

  test('an unknown person becomes a user with every name given', () => {
    expect(plan({}, named('1', 'ada@example.com'), named('2'), named(undefined, 'bob@example.com'))).toEqual({
      ...nothing,
      users: ['new1', 'new2', 'new3'],
      created: ['new1', 'new2', 'new3'],
      added: [
        'email ada@example.com -> new1',
        'email bob@example.com -> new3',
        'external_id 1 -> new1',
        'external_id 2 -> new2',
      ],
    });
  });

  test('named several times in one request, also by different names, is one user', () => {
    const people = [
      named('1', 'ada@example.com'),
      named('1'),
      named(undefined, 'ada@example.com'),
      named('1', 'ADA@EXAMPLE.COM'),
    ];
    expect(plan({}, ...people)).toMatchObject({
      users: ['new1', 'new1', 'new1', 'new1'],
      created: ['new1'],
      conflicts: [],
    });
  });

  test('a user known by address receives the external id', () => {
    expect(plan({ u: [null, 'ada@example.com'] }, named('1', 'ada@example.com'))).toEqual({
      ...nothing,
      users: ['u'],
      added: ['external_id 1 -> u'],
      changed: { u: { externalId: '1' } },
    });
  });

  test('a user known by external id receives the address, in place of the former one', () => {
    expect(plan({ u: ['1', null] }, named('1', 'ada@example.com'))).toEqual({
      ...nothing,
      users: ['u'],
      added: ['email ada@example.com -> u'],
      changed: { u: { email: 'ada@example.com' } },
    });
    expect(plan({ u: ['1', 'old@example.com'] }, named('1', 'new@example.com'))).toEqual({
      ...nothing,
      users: ['u'],
      added: ['email new@example.com -> u'],
      removed: ['email old@example.com -> u'],
      changed: { u: { email: 'new@example.com' } },
    });
  });

  test('an address that was given up is free for another in the same request', () => {
    const users = { u: ['1', 'old@example.com'] } as Record<string, [string, string]>;
    expect(plan(users, named('1', 'new@example.com'), named('2', 'old@example.com'))).toMatchObject({
      users: ['u', 'new1'],
      added: ['email new@example.com -> u', 'email old@example.com -> new1', 'external_id 2 -> new1'],
      conflicts: [],
    });
  });

  test('when external id and address name two users, the external id wins and the conflict is reported', () => {
    const users = { u: ['1', null], v: ['2', 'ada@example.com'] } as Record<string, [string, string | null]>;
    expect(plan(users, named('1', 'ada@example.com'))).toEqual({ ...nothing, users: ['u'], conflicts: [0] });
  });

  test('an unknown external id with the address of another known person is a new user without it', () => {
    expect(plan({ v: ['2', 'ada@example.com'] }, named('1', 'ada@example.com'))).toEqual({
      ...nothing,
      users: ['new1'],
      created: ['new1'],
      added: ['external_id 1 -> new1'],
      conflicts: [0],
    });
  });
});

describe('who is deleted', () => {
  const users: Users = {
    gone: ['1', 'ada@example.com'],
    nameless: [null, 'bob@example.com'],
    alive: ['2', null],
  };
  const deleted = ['gone', 'nameless'];
  const planned = (restoring: boolean, ...people: Person[]) => {
    const made = planUsers(people, world(users, { deleted, restoring }));
    return { ...inShort(made), deleted: [...made.deleted], released: [...made.released] };
  };

  test.each([
    ['by external id', named('1')],
    ['by address', named(undefined, 'ada@example.com')],
    ['by external id and a new address', named('1', 'new@example.com')],
    ['by address, with a new external id, having none', named('3', 'bob@example.com')],
  ])('named %s is told apart, and nothing is written', (_how, person) => {
    const {
      users: [user],
      ...rest
    } = planned(false, person);
    expect(rest).toEqual({ ...nothing, deleted: [[0, user]], released: [] });
    expect(deleted).toContain(user);
  });

  test('and restored is treated as anybody else', () => {
    expect(planned(true, named('1', 'new@example.com'))).toEqual({
      ...nothing,
      users: ['gone'],
      added: ['email new@example.com -> gone'],
      removed: ['email ada@example.com -> gone'],
      changed: { gone: { email: 'new@example.com' } },
      deleted: [[0, 'gone']],
      released: [],
    });
    expect(planned(true, named('3', 'bob@example.com'))).toMatchObject({
      users: ['nameless'],
      added: ['external_id 3 -> nameless'],
      deleted: [[0, 'nameless']],
    });
  });

  test.each([true, false])('keeps no address from somebody else (restoring: %s)', (restoring) => {
    expect(planned(restoring, named('3', 'ADA@example.com'), named('3', 'ada@example.com'))).toEqual({
      ...nothing,
      users: ['new1', 'new1'],
      created: ['new1'],
      added: ['email ADA@example.com -> new1', 'external_id 3 -> new1'],
      removed: ['email ADA@example.com -> gone'],
      deleted: [],
      released: ['gone'],
    });
    expect(planned(restoring, named('2', 'ada@example.com'))).toMatchObject({
      users: ['alive'],
      changed: { alive: { email: 'ada@example.com' } },
      conflicts: [],
      released: ['gone'],
    });
  });

  test('keeps the address when named, and brought back, in the same breath', () => {
    expect(planned(true, named('1'), named('2', 'ada@example.com'))).toMatchObject({
      users: ['gone', 'alive'],
      conflicts: [1],
      released: [],
    });
  });
});
