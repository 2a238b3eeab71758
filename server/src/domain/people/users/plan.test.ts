import { describe, expect, test } from 'vitest';
import { identityKey } from '../../ground/identities/identities.ts';
import { type KnownUser, type Person, type Plan, planUsers } from './plan.ts';

const projectId = 'p';

/** Plans people among these users, each given as `id: [external id, e-mail]`. */
function planAmong(
  users: Record<string, [string | null, string | null]>,
  people: Person[],
  { deleted = [], restoring = false }: { deleted?: string[]; restoring?: boolean } = {},
) {
  const owners = new Map<string, string>();
  const known = new Map<string, KnownUser>();
  for (const [id, [externalId, email]] of Object.entries(users)) {
    if (externalId !== null) owners.set(identityKey(projectId, 'external_id', externalId), id);
    if (email !== null) owners.set(identityKey(projectId, 'email', email), id);
    known.set(id, { id, externalId, email });
  }
  let made = 0;
  const makeId = () => {
    made += 1;
    return `new${made}`;
  };
  return planUsers(people, { owners, known, deleted: new Set(deleted) }, { restoring, makeId });
}

const named = (externalId?: string, email?: string): Person => ({ projectId, externalId, email });

type Users = Record<string, [string | null, string | null]>;

function plan(users: Users, ...people: Person[]) {
  return summary(planAmong(users, people));
}

function summary(made: Plan) {
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

describe('people', () => {
  test('a known user is found by external id, by address in any case, and by both', () => {
    const users = { u: ['1', 'ada@example.com'] } as Record<string, [string, string]>;
    expect(
      plan(users, named('1'), named(undefined, 'ADA@example.com'), named('1', 'ada@Example.com')),
    ).toEqual({
      ...nothing,
      users: ['u', 'u', 'u'],
    });
  });

  test('an unknown person becomes a user with all given identities', () => {
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

  test('a person named several times in one request is one user', () => {
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

  test('an address that a user no longer has is free for another in the same request', () => {
    const users = { u: ['1', 'old@example.com'] } as Record<string, [string, string]>;
    expect(plan(users, named('1', 'new@example.com'), named('2', 'old@example.com'))).toMatchObject({
      users: ['u', 'new1'],
      added: ['email new@example.com -> u', 'email old@example.com -> new1', 'external_id 2 -> new1'],
      conflicts: [],
    });
  });

  test('a user keeps the stored address if the last entry for the user has it', () => {
    const users: Users = { u: ['1', 'old@example.com'] };
    const people = ['new@example.com', 'old@example.com'].map((email) => named('1', email));
    const kept = { ...nothing, users: ['u', 'u'], changed: { u: { email: 'old@example.com' } } };
    expect(plan(users, ...people)).toEqual(kept);
    expect(plan(users, ...people, named('1', 'new@example.com'))).toMatchObject({
      added: ['email new@example.com -> u'],
      removed: ['email old@example.com -> u'],
    });
    const others = [named('2', 'new@example.com'), named('3', 'old@example.com')];
    expect(plan(users, ...people, ...others)).toMatchObject({
      added: ['email new@example.com -> new1', 'external_id 2 -> new1', 'external_id 3 -> new2'],
      removed: [],
      conflicts: [3],
    });
  });

  test('an address that is only planned is not removed from what is stored', () => {
    const people = ['a@example.com', 'b@example.com'].map((email) => named('1', email));
    expect(plan({}, ...people)).toMatchObject({
      added: ['email b@example.com -> new1', 'external_id 1 -> new1'],
      removed: [],
    });
    expect(plan({ u: ['1', null] }, ...people)).toMatchObject({
      added: ['email b@example.com -> u'],
      removed: [],
    });
  });

  test('if external id and address belong to two users, the external id wins, with a conflict', () => {
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

describe('a deleted user', () => {
  const users: Users = {
    deleted: ['1', 'ada@example.com'],
    addressOnly: [null, 'bob@example.com'],
    alive: ['2', null],
  };
  const deleted = ['deleted', 'addressOnly'];
  const planned = (restoring: boolean, ...people: Person[]) => {
    const made = planAmong(users, people, { deleted, restoring });
    return { ...summary(made), deleted: [...made.deleted], released: [...made.released] };
  };

  test.each([
    ['by external id', named('1')],
    ['by address', named(undefined, 'ada@example.com')],
    ['by external id and a new address', named('1', 'new@example.com')],
    ['by address, with a new external id, having none', named('3', 'bob@example.com')],
  ])('that is named %s is listed, and nothing is written', (_how, person) => {
    const {
      users: [user],
      ...rest
    } = planned(false, person);
    expect(rest).toEqual({ ...nothing, deleted: [[0, user]], released: [] });
    expect(deleted).toContain(user);
  });

  test('is treated like other users if it is restored', () => {
    expect(planned(true, named('1', 'new@example.com'))).toEqual({
      ...nothing,
      users: ['deleted'],
      added: ['email new@example.com -> deleted'],
      removed: ['email ada@example.com -> deleted'],
      changed: { deleted: { email: 'new@example.com' } },
      deleted: [[0, 'deleted']],
      released: [],
    });
    expect(planned(true, named('3', 'bob@example.com'))).toMatchObject({
      users: ['addressOnly'],
      added: ['external_id 3 -> addressOnly'],
      deleted: [[0, 'addressOnly']],
    });
  });

  test.each([true, false])(
    'loses its address to a user that is named with it (restoring: %s)',
    (restoring) => {
      expect(planned(restoring, named('3', 'ADA@example.com'), named('3', 'ada@example.com'))).toEqual({
        ...nothing,
        users: ['new1', 'new1'],
        created: ['new1'],
        added: ['email ADA@example.com -> new1', 'external_id 3 -> new1'],
        removed: ['email ADA@example.com -> deleted'],
        deleted: [],
        released: ['deleted'],
      });
      expect(planned(restoring, named('2', 'ada@example.com'))).toMatchObject({
        users: ['alive'],
        changed: { alive: { email: 'ada@example.com' } },
        conflicts: [],
        released: ['deleted'],
      });
    },
  );

  test('keeps its address if the same request restores it', () => {
    expect(planned(true, named('1'), named('2', 'ada@example.com'))).toMatchObject({
      users: ['deleted', 'alive'],
      conflicts: [1],
      released: [],
    });
  });
});
