import { textArray, uuidArray } from '../../../db/arrays.ts';
import { isUniqueViolation, type Queryable, sql } from '../../../db/client.ts';
import { chunksOf } from '../../../lib/chunks.ts';
import { type NewEvent, recordEvents, USERS_PER_EVENT_ROW } from '../../ground/events/record.ts';
import { identityValue } from '../../ground/identities/identities.ts';
import { KEEP_FORMER, keyColumns } from '../../ground/identities/keys.ts';
import type { AddedKey, KnownUser, Person, Plan } from './plan.ts';
import { restoreUsers } from './restore.ts';

/**
 * How identities are inserted. `plain` is for those that were just looked up: it takes about 40 % less time,
 * but fails at the first that another transaction took meanwhile. `unless taken` waits for all such
 * transactions, so that one more round finds all of their users.
 */
export type KeyInsertion = 'plain' | 'unless taken';

/**
 * Writes identities, locks the users whose identities change, and restores deleted users. Returns false, with
 * nothing written, if another transaction took one of the identities, or changed such a user, meanwhile.
 */
export async function writeIdentities(
  tx: Queryable,
  plan: Plan,
  details: ReadonlyMap<string, KnownUser>,
  { restoring, insertion }: { restoring: boolean; insertion: KeyInsertion },
): Promise<boolean> {
  const back = restoring ? [...new Set(plan.deleted.values())] : [];
  if (plan.addedKeys.size === 0 && plan.changed.size === 0 && back.length === 0) return true;
  const write = async () =>
    (await writeKeys(tx, plan, insertion)) &&
    (await restoreUsers(tx, back)) === 'restored' &&
    (await lockUnchanged(tx, details, [...plan.changed.keys()]));
  // Sent together, to wait for one round trip. The commit releases the savepoint.
  const [, written] = await Promise.all([tx.query(savepoint), write()]);
  if (!written) await tx.query(rollbackToSavepoint);
  return written;
}

async function writeKeys(tx: Queryable, plan: Plan, insertion: KeyInsertion): Promise<boolean> {
  const removed = sorted(plan.removedKeys.values());
  const released = removed.filter(({ userId }) => plan.released.has(userId));
  const given = removed.filter(({ userId }) => !plan.released.has(userId));
  const added = sorted(plan.addedKeys.values());
  // If not all are removed, a user was renamed meanwhile: perhaps to the same name, with a new row.
  if (given.length > 0 && (await tx.query(deleteKeys, keyColumns(given))).length < given.length) return false;
  if (released.length > 0) {
    // A user that was restored in the meantime keeps the address.
    const deleted = await tx.query(releaseKeys, keyColumns(released));
    if (deleted.length < released.length) return false;
    await tx.query(clearReleased, [uuidArray([...plan.released].sort())]);
  }
  if (added.length === 0) return true;
  if (insertion === 'plain') return insertPlainly(tx, added);
  const [row] = await tx.query<{ count: number }>(insertKeys, keyColumns(added));
  return row?.count === added.length;
}

async function insertPlainly(tx: Queryable, added: readonly AddedKey[]): Promise<boolean> {
  try {
    await tx.query(insertNewKeys, keyColumns(added));
    return true;
  } catch (error) {
    if (!isUniqueViolation(error)) throw error;
    return false; // the caller rolls back to its savepoint
  }
}

/** Locks users, and returns whether they still have the identities that the plan was made from. */
async function lockUnchanged(
  tx: Queryable,
  details: ReadonlyMap<string, KnownUser>,
  userIds: readonly string[],
): Promise<boolean> {
  if (userIds.length === 0) return true;
  const rows = await tx.query<{
    id: string;
    external_id: string | null;
    email: string | null;
    deleted: boolean;
  }>(lockDetails, [userIds]);
  if (rows.length < userIds.length) return false; // purged
  return rows.every(({ id, external_id, email, deleted }) => {
    const seen = details.get(id);
    return !deleted && seen !== undefined && seen.externalId === external_id && seen.email === email;
  });
}

// In one order everywhere, so that two transactions that write the same identities do not deadlock.
function sorted(keys: Iterable<AddedKey>): AddedKey[] {
  const position = (key: AddedKey) => `${key.projectId}${key.kind}${identityValue(key.kind, key.value)}`;
  return [...keys]
    .map((key) => ({ key, position: position(key) }))
    .sort((a, b) => (a.position < b.position ? -1 : 1))
    .map(({ key }) => key);
}

/** Creates users and writes the details of others, each with its event. Returns the users it changed. */
export async function writeUsers(
  tx: Queryable,
  people: readonly Person[],
  plan: Plan,
  restoring: boolean,
): Promise<Set<string>> {
  const described = describe(people, plan, restoring);
  const created = [...plan.created]
    .map(([id, person]) => ({ id, ...person, ...described.get(id) }))
    .sort(byId);
  for (const user of created) described.delete(user.id);
  for (const id of plan.changed.keys()) {
    if (!described.has(id)) described.set(id, ownerOf(people, plan, id));
  }
  const updates = [...described].map(([id, person]) => ({ id, ...person })).sort(byId);
  const [, updated] = await Promise.all([
    insertNewUsers(tx, created),
    updateDetails(tx, plan, updates),
    recordEvents(tx, grouped('user.created', created)),
  ]);
  await recordEvents(
    tx,
    grouped(
      'user.updated',
      updates.filter(({ id }) => updated.has(id)),
    ),
  );
  return updated;
}

async function insertNewUsers(tx: Queryable, created: readonly (Person & { id: string })[]): Promise<void> {
  if (created.length === 0) return;
  await tx.query(insertUsers, [
    uuidArray(created.map((user) => user.id)),
    uuidArray(created.map((user) => user.projectId)),
    textArray(created.map((user) => user.externalId)),
    textArray(created.map((user) => user.email?.trim())),
    textArray(created.map((user) => user.firstName)),
    textArray(created.map((user) => user.lastName)),
    textArray(created.map((user) => user.locale)),
    textArray(created.map((user) => user.customAttributes)),
    textArray(created.map((user) => textArray(user.phoneNumbers ?? []))),
  ]);
}

/** Returns the users that were changed. */
async function updateDetails(
  tx: Queryable,
  plan: Plan,
  updates: readonly (Person & { id: string })[],
): Promise<Set<string>> {
  if (updates.length === 0) return new Set();
  const rows = await tx.query<{ id: string }>(updateUsers, [
    updates.map((user) => user.id),
    JSON.stringify(updates.map((user) => changedMembers(user, plan.changed.get(user.id)))),
  ]);
  return new Set(rows.map(({ id }) => id));
}

/** Returns the details of each user. Of different details for one user, the later one counts. */
function describe(people: readonly Person[], plan: Plan, restoring: boolean): Map<string, Person> {
  const described = new Map<string, Person>();
  people.forEach((person, index) => {
    if (!restoring && plan.deleted.has(index)) return;
    const { projectId, firstName, lastName, locale, customAttributes, phoneNumbers, cause } = person;
    if (
      firstName === undefined &&
      lastName === undefined &&
      locale === undefined &&
      customAttributes === undefined &&
      phoneNumbers === undefined
    )
      return;
    const id = plan.userIds[index] as string;
    const merged: Person = { projectId, ...described.get(id), cause };
    if (firstName !== undefined) merged.firstName = firstName;
    if (lastName !== undefined) merged.lastName = lastName;
    if (locale !== undefined) merged.locale = locale;
    if (customAttributes !== undefined) merged.customAttributes = customAttributes;
    if (phoneNumbers !== undefined) merged.phoneNumbers = phoneNumbers;
    described.set(id, merged);
  });
  return described;
}

/** Returns the project of a user, and what has named the user. */
function ownerOf(people: readonly Person[], plan: Plan, userId: string): Person {
  const { projectId = '', cause } = people[plan.userIds.indexOf(userId)] ?? {};
  return { projectId, cause };
}

/** Returns the members to be written; absent ones stay. */
function changedMembers(
  person: Person,
  identity: { externalId?: string | null; email?: string | null } | undefined,
): Record<string, unknown> {
  const members: Record<string, unknown> = {};
  if (identity?.externalId !== undefined) members.external_id = identity.externalId;
  if (identity?.email !== undefined) members.email = identity.email?.trim() ?? null;
  if (person.firstName !== undefined) members.first_name = person.firstName;
  if (person.lastName !== undefined) members.last_name = person.lastName;
  if (person.locale !== undefined) members.locale = person.locale;
  // As text, so that the column keeps the JSON as it was sent.
  if (person.customAttributes !== undefined) members.custom_attributes = person.customAttributes;
  if (person.phoneNumbers !== undefined) members.phone_numbers = person.phoneNumbers;
  return members;
}

function grouped(
  type: 'user.created' | 'user.updated',
  users: readonly (Person & { id: string })[],
): NewEvent[] {
  const events: NewEvent[] = [];
  for (const [projectId, members] of Map.groupBy(users, (user) => user.projectId)) {
    // A row at a time: the users of a large broadcast then have their cause once, not each.
    for (const some of chunksOf(members, USERS_PER_EVENT_ROW))
      events.push({ projectId, type, userIds: some.map(({ id }) => id), ...detailsOf(some) });
  }
  return events;
}

function detailsOf(users: readonly Person[]): Pick<NewEvent, 'details'> {
  const details = users.map(({ cause }) => (cause === undefined ? {} : { context: cause }));
  const [first] = users;
  if (users.some(({ cause }) => cause !== first?.cause)) return { details };
  return first?.cause === undefined ? {} : { details: { context: first.cause } };
}

function byId(a: { id: string }, b: { id: string }): number {
  return a.id < b.id ? -1 : 1;
}

const insertUsers = sql(
  'insert_users',
  `insert into users (
    id, project_id, external_id, email, first_name, last_name, locale, custom_attributes, phone_numbers,
    created_at, updated_at
  )
  select id, project_id, external_id, email, first_name, last_name, locale, custom_attributes::json,
    phone_numbers::text[], now(), now()
  from unnest(
    $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[]
  ) as u (
    id, project_id, external_id, email, first_name, last_name, locale, custom_attributes, phone_numbers
  )`,
);
// The new value of a column: the given one, or else the stored one. `u` is the row when it is written, so
// that other columns keep what another transaction wrote meanwhile.
const newValue = (column: string, stored = `u.${column}`, given = `given ->> '${column}'`) =>
  `case when given ? '${column}' then ${given} else ${stored} end`;
const NEW_VALUES = {
  external_id: newValue('external_id'),
  email: newValue('email'),
  first_name: newValue('first_name'),
  last_name: newValue('last_name'),
  locale: newValue('locale'),
  custom_attributes: newValue('custom_attributes', 'u.custom_attributes::text'),
  phone_numbers: newValue(
    'phone_numbers',
    'u.phone_numbers',
    "array(select jsonb_array_elements_text(given -> 'phone_numbers'))",
  ),
};
// A row is written, or even locked, only if something about it is new: most requests repeat what is stored.
// Rows are locked in the order of ids, so that two transactions that change the same users do not deadlock.
// Primary key of users.
const updateUsers = sql(
  'update_users',
  `with given as (
    select id, given
    from unnest($1::uuid[], array(select value::jsonb from json_array_elements($2::json))) as s (id, given)
  ),
  changed as (
    select u.id, given
    from given
    join users u using (id)
    where u.deleted_at is null
      and (
        u.external_id, u.email, u.first_name, u.last_name, u.locale, u.custom_attributes::text,
        u.phone_numbers
      )
      is distinct from
      (${Object.values(NEW_VALUES).join(', ')})
    order by u.id
    for no key update of u
  )
  update users u
  set external_id = ${NEW_VALUES.external_id},
    email = ${NEW_VALUES.email},
    first_name = ${NEW_VALUES.first_name},
    last_name = ${NEW_VALUES.last_name},
    locale = ${NEW_VALUES.locale},
    custom_attributes = (${NEW_VALUES.custom_attributes})::json,
    phone_numbers = ${NEW_VALUES.phone_numbers},
    updated_at = now()
  from changed
  where u.id = changed.id
  returning u.id`,
);

const savepoint = sql('users_savepoint', 'savepoint identities');
const rollbackToSavepoint = sql('users_rollback', 'rollback to savepoint identities');

// Primary key of users. In the order of ids, and after the identities, as in every transaction. It returns
// what others committed while it waited.
const lockDetails = sql(
  'lock_identities',
  `select id, external_id, email, deleted_at is not null as deleted
  from users
  where id = any ($1::uuid[])
  order by id
  for no key update`,
);
// Primary keys. Former identities are kept until the user is erased: sent broadcasts name them.
const keyDeletion = (name: string, condition: string) =>
  sql(
    name,
    `with removed_keys as (
    delete from user_keys k
    using unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as r (project_id, kind, value, user_id)
    where k.project_id = r.project_id and k.kind = r.kind and k.value = r.value
      and k.user_id = r.user_id and ${condition}
    returning k.user_id, k.kind, k.value
  ),
  kept as (
    ${KEEP_FORMER}
  )
  select from removed_keys`,
  );
const deleteKeys = keyDeletion('delete_keys', 'true');
const releaseKeys = keyDeletion('release_keys', 'k.deleted');
const clearReleased = sql(
  'clear_released_addresses',
  `with released as (
    select id from users where id = any ($1::uuid[]) order by id for no key update
  )
  update users u
  set email = null
  from released
  where u.id = released.id`,
);
// The primary key decides which transaction creates a user: the other waits here for the commit, and then
// gets no row, or an error.
const INSERT_KEYS = `insert into user_keys (project_id, kind, value, user_id)
    select project_id, kind, value, user_id
    from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as k (project_id, kind, value, user_id)
    order by project_id, kind, value`;
const insertNewKeys = sql('insert_new_keys', INSERT_KEYS);
const insertKeys = sql(
  'insert_keys',
  `with written as (
    ${INSERT_KEYS}
    on conflict do nothing
    returning 1
  )
  select count(*)::int as count from written`,
);
