import { newId } from '../../../lib/ids.ts';
import { type IdentityKeys, identityKey, identityKeysOf } from '../../ground/identities/identities.ts';

/** A user as a caller names and describes them. An absent member changes nothing; null clears. */
export interface Person {
  projectId: string;
  externalId?: string | undefined;
  email?: string | undefined;
  firstName?: string | null | undefined;
  lastName?: string | null | undefined;
  /** In canonical form. */
  locale?: string | null | undefined;
  /** JSON text of an object. */
  customAttributes?: string | null | undefined;
  phoneNumbers?: readonly string[] | undefined;
  /** What names them, such as a broadcast: the context of their events. One object for all of its people. */
  cause?: Readonly<Record<string, unknown>> | undefined;
}

/** Whether a person has details that are to be saved. */
export function hasDetails(person: Omit<Person, 'projectId'>): boolean {
  return (
    person.firstName !== undefined ||
    person.lastName !== undefined ||
    person.locale !== undefined ||
    person.customAttributes !== undefined ||
    person.phoneNumbers !== undefined
  );
}

/** What is known of a user whose identities may have to change. */
export interface KnownUser {
  id: string;
  externalId: string | null;
  email: string | null;
}

/** What has to be written so that every person is a user. */
export interface Plan {
  /** The user of each person, in their order. */
  userIds: string[];
  created: Map<string, Person>;
  /** Identities to add: key to user. */
  addedKeys: Map<string, AddedKey>;
  /** Stored identities to remove because the user has another one now. */
  removedKeys: Map<string, AddedKey>;
  /** Changed identities of users that exist; null clears. */
  changed: Map<string, { externalId?: string | null; email?: string | null }>;
  /** People, by index, whose identities belong to two users. The external id wins. */
  conflicts: { person: number; message: string }[];
  /**
   * The deleted users of people, by the index of the person. Nothing is written for them unless restoring.
   */
  deleted: Map<number, string>;
  /** Deleted users that lose their address to another user. */
  released: Set<string>;
}

export interface AddedKey {
  projectId: string;
  kind: 'external_id' | 'email';
  value: string;
  userId: string;
}

/** What is stored of the users of people. */
export interface StoredUsers {
  /** The user of each identity key. */
  owners: ReadonlyMap<string, string>;
  /** The users whose identities may change. */
  known: ReadonlyMap<string, KnownUser>;
  /** The deleted ones. */
  deleted: ReadonlySet<string>;
}

/**
 * Plans the user of each person. Pure, apart from the ids of new users.
 *
 * The rules: the external id wins over the e-mail address. A user known by the address alone receives the
 * external id. A user known by the external id receives the address, in place of the former one. An address
 * that belongs to another user stays there, and the conflict is reported. But a deleted user keeps no
 * address: a person who signs up with it under another external id gets it.
 */
export function planUsers(
  people: readonly Person[],
  stored: StoredUsers,
  {
    restoring,
    makeId = newId,
    names = people.map(identityKeysOf),
  }: {
    /** Whether deleted users come back by being named. */
    restoring: boolean;
    makeId?: () => string;
    names?: readonly IdentityKeys[];
  },
): Plan {
  const plan = emptyPlan([]);
  const lookUp = { ...stored, restoring, makeId };
  people.forEach((person, index) => {
    plan.userIds.push(planPerson(plan, person, names[index] as IdentityKeys, index, lookUp));
  });
  return plan;
}

type LookUp = StoredUsers & { restoring: boolean; makeId: () => string };

/** A plan that writes nothing. */
export function emptyPlan(userIds: string[]): Plan {
  return {
    userIds,
    created: new Map(),
    addedKeys: new Map(),
    removedKeys: new Map(),
    changed: new Map(),
    conflicts: [],
    deleted: new Map(),
    released: new Set(),
  };
}

function planPerson(plan: Plan, person: Person, names: IdentityKeys, index: number, lookUp: LookUp): string {
  const { projectId, externalId, email } = person;
  const { id: idKey, email: mailKey } = names;
  const byId = ownerOf(plan, lookUp, idKey);
  const byMail = ownerOf(plan, lookUp, mailKey);

  if (byId === undefined && byMail === undefined) {
    const userId = create(plan, lookUp, person);
    add(plan, idKey, { projectId, kind: 'external_id', value: externalId, userId });
    add(plan, mailKey, { projectId, kind: 'email', value: email, userId });
    return userId;
  }
  if (byId === undefined && byMail !== undefined) {
    if (externalId === undefined || hasNoExternalId(plan, lookUp, byMail)) {
      if (isSkipped(plan, lookUp, index, byMail) || externalId === undefined) return byMail;
      add(plan, idKey, { projectId, kind: 'external_id', value: externalId, userId: byMail });
      change(plan, byMail, { externalId });
      return byMail;
    }
    const userId = create(plan, lookUp, { ...person, email: undefined });
    add(plan, idKey, { projectId, kind: 'external_id', value: externalId, userId });
    moveAddress(plan, lookUp, { person, mailKey, byMail, userId, index });
    return userId;
  }
  const userId = byId as string;
  if (isSkipped(plan, lookUp, index, userId)) return userId;
  if (email === undefined || byMail === userId) return userId;
  if (byMail === undefined) {
    removeEmail(plan, lookUp, projectId, userId);
    add(plan, mailKey, { projectId, kind: 'email', value: email, userId });
    change(plan, userId, { email });
  } else moveAddress(plan, lookUp, { person, mailKey, byMail, userId, index });
  return userId;
}

/** Returns whether a person is skipped because the user is deleted. */
function isSkipped(plan: Plan, { deleted, restoring }: LookUp, person: number, userId: string): boolean {
  if (!deleted.has(userId)) return false;
  plan.deleted.set(person, userId);
  return !restoring;
}

function hasNoExternalId(plan: Plan, lookUp: LookUp, userId: string): boolean {
  return (detailsOf(plan, lookUp, userId)?.externalId ?? null) === null;
}

/** Gives the address of a deleted user to the user named with it; other users keep theirs. */
function moveAddress(
  plan: Plan,
  lookUp: LookUp,
  to: { person: Person; mailKey: string | undefined; byMail: string; userId: string; index: number },
): void {
  const { person, mailKey, byMail, userId, index } = to;
  const { projectId, email } = person;
  if (mailKey === undefined || email === undefined) return;
  const isRestored = lookUp.restoring && [...plan.deleted.values()].includes(byMail);
  if (!lookUp.deleted.has(byMail) || isRestored) {
    plan.conflicts.push({ person: index, message: `the e-mail address ${email} belongs to another user` });
    return;
  }
  plan.released.add(byMail);
  plan.removedKeys.set(mailKey, { projectId, kind: 'email', value: email, userId: byMail });
  removeEmail(plan, lookUp, projectId, userId);
  add(plan, mailKey, { projectId, kind: 'email', value: email, userId });
  change(plan, userId, { email });
}

function ownerOf(plan: Plan, lookUp: LookUp, key: string | undefined): string | undefined {
  if (key === undefined) return undefined;
  const added = plan.addedKeys.get(key);
  if (added) return added.userId;
  return plan.removedKeys.has(key) ? undefined : lookUp.owners.get(key);
}

function add(
  plan: Plan,
  key: string | undefined,
  entry: Omit<AddedKey, 'value'> & { value: string | undefined },
): void {
  const { value, userId } = entry;
  if (key === undefined || value === undefined) return;
  if (plan.removedKeys.get(key)?.userId === userId) {
    // The stored row stays. A deletion that waits for it would not see a new one, and the row of the user,
    // which it compares, would be unchanged.
    plan.removedKeys.delete(key);
    plan.released.delete(userId);
  } else plan.addedKeys.set(key, { ...entry, value });
}

/** Removes the current address of a user. */
function removeEmail(plan: Plan, lookUp: LookUp, projectId: string, userId: string): void {
  const before = detailsOf(plan, lookUp, userId)?.email ?? null;
  if (before === null) return;
  const key = identityKey(projectId, 'email', before);
  // An address that this plan added is not stored.
  if (!plan.addedKeys.delete(key))
    plan.removedKeys.set(key, { projectId, kind: 'email', value: before, userId });
}

function create(plan: Plan, lookUp: LookUp, person: Person): string {
  const userId = lookUp.makeId();
  plan.created.set(userId, person);
  return userId;
}

function detailsOf(plan: Plan, lookUp: LookUp, userId: string): KnownUser | undefined {
  const created = plan.created.get(userId);
  const base: KnownUser | undefined = created
    ? { id: userId, externalId: created.externalId ?? null, email: created.email ?? null }
    : lookUp.known.get(userId);
  const changed = plan.changed.get(userId);
  return base && changed ? { ...base, ...changed } : base;
}

function change(plan: Plan, userId: string, members: { externalId?: string; email?: string }): void {
  const created = plan.created.get(userId);
  if (created) plan.created.set(userId, { ...created, ...members });
  else plan.changed.set(userId, { ...plan.changed.get(userId), ...members });
}
