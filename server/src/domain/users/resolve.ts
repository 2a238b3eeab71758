import { textArray, uuidArray } from '../../db/arrays.ts';
import { type Queryable, sql } from '../../db/client.ts';
import { newId } from '../../lib/ids.ts';
import { type NewEvent, recordEvents } from '../events/record.ts';
import type { Bus } from '../realtime/messages.ts';
import { type Identities, type IdentityKind, identityValue, type Names, namesOf } from './identities.ts';
import { KEEP_FORMER, keyColumns } from './keys.ts';
import { type AddedKey, type KnownUser, type Person, type Plan, planUsers } from './plan.ts';
import { restoreUsers } from './restore.ts';

/** Who the people are. `remember` puts what was learnt into the cache: call it after the commit, and only then. */
export interface Resolved {
  userIds: string[];
  created: ReadonlySet<string>;
  /** The users of whom something was written that differs, and told in an event. */
  updated: ReadonlySet<string>;
  conflicts: Plan['conflicts'];
  /** The persons, by number, whose user is deleted: nothing was written of them. */
  refused: Plan['deleted'];
  /** The deleted users who are back. */
  restored: readonly string[];
  /** The identities that mean another user now, or nobody: other nodes have to hear of them. */
  moved: readonly string[];
  remember(): void;
}

// Two processes that name the same new user at the same moment: one wins, the other looks again and finds it. A crowd that renames,
// deletes and restores the same few users all the time has been seen to take more than eight.
const MAX_ROUNDS = 20;

/**
 * Finds or creates the user of every person, all in a handful of statements, and writes what is said about them: a member that is
 * given replaces the stored one, an absent one stays. Users who are deleted are restored by it, or left as they are. Runs in the caller's
 * transaction.
 */
export async function resolveUsers(
  tx: Queryable,
  identities: Identities,
  people: readonly Person[],
  whoIsDeleted: 'is restored' | 'is refused' = 'is refused',
): Promise<Resolved> {
  const restoring = whoIsDeleted === 'is restored';
  const names = people.map(namesOf);
  for (let round = 1; round <= MAX_ROUNDS; round += 1) {
    const forgotten = identities.forgotten;
    // What is in memory may say that somebody is there who is to be restored.
    const fresh = restoring || round > 1;
    const { owners, deleted, learnt } = await findOwners(tx, identities, people, names, fresh);
    const details = await findDetails(tx, names, owners);
    const lookUp = {
      owner: (key: string) => owners.get(key),
      known: (id: string) => details.get(id),
      isDeleted: (id: string) => deleted.has(id),
      restoring,
      newId,
    };
    const plan = planUsers(people, lookUp, names);
    if (!(await writeIdentities(tx, plan, details, restoring))) continue;
    const restored = restoring ? [...new Set(plan.deleted.values())] : [];
    const updated = await writeUsers(tx, people, plan, restoring);
    return {
      userIds: plan.userIds,
      created: new Set(plan.created.keys()),
      updated,
      conflicts: plan.conflicts,
      refused: restoring ? new Map() : plan.deleted,
      restored,
      moved: [...plan.removedKeys.keys()],
      remember: () => remember(identities, plan, identities.forgotten === forgotten ? learnt : new Map()),
    };
  }
  throw new Error(`users could not be identified in ${MAX_ROUNDS} rounds`);
}

/** Publishes what resolving has changed for caches and connections, after the commit. */
export function tellOthers(bus: Bus, { restored, moved }: Pick<Resolved, 'restored' | 'moved'>): void {
  for (const userId of restored) bus.publish({ type: 'user_restored', userId });
  for (let start = 0; start < moved.length; start += KEYS_PER_MESSAGE)
    bus.publish({ type: 'identities_changed', keys: moved.slice(start, start + KEYS_PER_MESSAGE) });
}

// 1,600 bytes each at most, of 7,900 (realtime/wire.ts).
const KEYS_PER_MESSAGE = 4;

interface Owners {
  /** By identity. */
  owners: Map<string, string>;
  /** Those of them who are deleted. */
  deleted: Set<string>;
  /** What was read of the living, and is worth remembering. */
  learnt: Map<string, string>;
}

/** The owner of each identity that has one: from memory, or by primary key of user_keys. */
async function findOwners(
  tx: Queryable,
  identities: Identities,
  people: readonly Person[],
  names: readonly Names[],
  fresh: boolean,
): Promise<Owners> {
  const owners = new Map<string, string>();
  const deleted = new Set<string>();
  const learnt = new Map<string, string>();
  const unknown = new Map<string, { projectId: string; kind: IdentityKind; value: string }>();
  const look = (key: string | undefined, { projectId }: Person, kind: IdentityKind, value = '') => {
    if (key === undefined || owners.has(key) || unknown.has(key)) return;
    const cached = fresh ? undefined : identities.get(key);
    if (cached !== undefined) owners.set(key, cached);
    else unknown.set(key, { projectId, kind, value: identityValue(kind, value) });
  };
  people.forEach((person, index) => {
    look(names[index]?.id, person, 'external_id', person.externalId);
    look(names[index]?.email, person, 'email', person.email);
  });
  if (unknown.size === 0) return { owners, deleted, learnt };
  const wanted = [...unknown.values()];
  const rows = await tx.query<{ place: number; user_id: string; deleted: boolean }>(selectOwners, [
    uuidArray(wanted.map((one) => one.projectId)),
    textArray(wanted.map((one) => one.kind)),
    textArray(wanted.map((one) => one.value)),
  ]);
  const keys = [...unknown.keys()];
  for (const row of rows) {
    const key = keys[row.place - 1] as string;
    owners.set(key, row.user_id);
    if (row.deleted) deleted.add(row.user_id);
    else learnt.set(key, row.user_id);
  }
  return { owners, deleted, learnt };
}

/** What is stored of users whose two identities are named together and do not both lead to them: only there can one change. */
async function findDetails(
  tx: Queryable,
  names: readonly Names[],
  owners: ReadonlyMap<string, string>,
): Promise<Map<string, KnownUser>> {
  const wanted = new Set<string>();
  for (const { id, email } of names) {
    if (id === undefined || email === undefined) continue;
    const byId = owners.get(id);
    const byMail = owners.get(email);
    if (byId === byMail) continue;
    if (byId !== undefined) wanted.add(byId);
    if (byMail !== undefined) wanted.add(byMail);
  }
  if (wanted.size === 0) return new Map();
  const rows = await tx.query<{ id: string; external_id: string | null; email: string | null }>(
    selectDetails,
    [[...wanted]],
  );
  return new Map(rows.map((row) => [row.id, { id: row.id, externalId: row.external_id, email: row.email }]));
}

/**
 * Writes the identities, locks the users whose own change by it, and brings back who is to be restored. Answers false, with nothing
 * written, when somebody else took one of them, or changed such a user, since we looked.
 */
async function writeIdentities(
  tx: Queryable,
  plan: Plan,
  details: ReadonlyMap<string, KnownUser>,
  restoring: boolean,
): Promise<boolean> {
  const back = restoring ? [...new Set(plan.deleted.values())] : [];
  if (plan.addedKeys.size === 0 && back.length === 0) return true;
  await tx.query(savepoint);
  if (
    (await writeKeys(tx, plan)) &&
    (await restoreUsers(tx, back)) === 'restored' &&
    (await stillAs(tx, details, [...plan.changed.keys()]))
  ) {
    await tx.query(releaseSavepoint);
    return true;
  }
  await tx.query(rollbackToSavepoint);
  return false;
}

async function writeKeys(tx: Queryable, plan: Plan): Promise<boolean> {
  const removed = [...plan.removedKeys.values()];
  const released = removed.filter(({ userId }) => plan.released.has(userId));
  const given = removed.filter(({ userId }) => !plan.released.has(userId));
  const added = sorted(plan.addedKeys.values());
  if (given.length > 0) await tx.query(deleteKeys, keyColumns(sorted(given)));
  if (released.length > 0) {
    // Who came back in the meantime keeps the address.
    const gone = await tx.query(releaseKeys, keyColumns(sorted(released)));
    if (gone.length < released.length) return false;
    await tx.query(clearReleased, [uuidArray([...plan.released].sort())]);
  }
  if (added.length === 0) return true;
  const [row] = await tx.query<{ count: number }>(insertKeys, keyColumns(added));
  return row?.count === added.length;
}

/** Locks users; answers whether they still go by the names that the plan was made of: another would leave them two of a kind. */
async function stillAs(
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

// In one order everywhere: two transactions that want the same identities then wait for each other, and never in a circle.
function sorted(keys: Iterable<AddedKey>): AddedKey[] {
  const position = (key: AddedKey) => `${key.projectId}${key.kind}${identityValue(key.kind, key.value)}`;
  return [...keys]
    .map((key) => ({ key, position: position(key) }))
    .sort((a, b) => (a.position < b.position ? -1 : 1))
    .map(({ key }) => key);
}

/** Answers which users who exist were changed by it. */
async function writeUsers(
  tx: Queryable,
  people: readonly Person[],
  plan: Plan,
  restoring: boolean,
): Promise<Set<string>> {
  const described = describe(people, plan, restoring);
  const events: NewEvent[] = [];
  const created = [...plan.created]
    .map(([id, person]) => ({ id, ...person, ...described.get(id) }))
    .sort(byId);
  if (created.length > 0) {
    await tx.query(insertUsers, [
      uuidArray(created.map((user) => user.id)),
      uuidArray(created.map((user) => user.projectId)),
      textArray(created.map((user) => user.externalId)),
      textArray(created.map((user) => user.email?.trim())),
      textArray(created.map((user) => user.firstName)),
      textArray(created.map((user) => user.lastName)),
      textArray(created.map((user) => user.customAttributes)),
      textArray(created.map((user) => textArray(user.phoneNumbers ?? []))),
    ]);
    for (const user of created) described.delete(user.id);
    events.push(...grouped('user.created', created));
  }
  for (const [id, members] of plan.changed) {
    const person = described.get(id);
    described.set(id, { ...person, projectId: person?.projectId ?? projectOf(people, plan, id), ...members });
  }
  const updates = [...described].map(([id, person]) => ({ id, ...person })).sort(byId);
  const updated = new Set<string>();
  if (updates.length > 0) {
    const rows = await tx.query<{ id: string; project_id: string }>(updateUsers, [
      updates.map((user) => user.id),
      JSON.stringify(updates.map((user) => given(user, plan.changed.get(user.id)))),
    ]);
    for (const { id } of rows) updated.add(id);
    events.push(
      ...grouped(
        'user.updated',
        rows.map((row) => ({ id: row.id, projectId: row.project_id })),
      ),
    );
  }
  await recordEvents(tx, events);
  return updated;
}

/** What is said about each user, by all who speak of it: where two differ, the later one counts. */
function describe(people: readonly Person[], plan: Plan, restoring: boolean): Map<string, Person> {
  const described = new Map<string, Person>();
  people.forEach((person, index) => {
    if (!restoring && plan.deleted.has(index)) return;
    const { projectId, firstName, lastName, customAttributes, phoneNumbers } = person;
    if (
      firstName === undefined &&
      lastName === undefined &&
      customAttributes === undefined &&
      phoneNumbers === undefined
    )
      return;
    const id = plan.userIds[index] as string;
    const said: Person = { projectId, ...described.get(id) };
    if (firstName !== undefined) said.firstName = firstName;
    if (lastName !== undefined) said.lastName = lastName;
    if (customAttributes !== undefined) said.customAttributes = customAttributes;
    if (phoneNumbers !== undefined) said.phoneNumbers = phoneNumbers;
    described.set(id, said);
  });
  return described;
}

function projectOf(people: readonly Person[], plan: Plan, userId: string): string {
  return people[plan.userIds.indexOf(userId)]?.projectId ?? '';
}

/** The members that are to be written, as the update statement reads them: an absent one stays. */
function given(
  person: Person,
  identity: { externalId?: string; email?: string } | undefined,
): Record<string, unknown> {
  const members: Record<string, unknown> = {};
  if (identity?.externalId !== undefined) members.external_id = identity.externalId;
  if (identity?.email !== undefined) members.email = identity.email.trim();
  if (person.firstName !== undefined) members.first_name = person.firstName;
  if (person.lastName !== undefined) members.last_name = person.lastName;
  // As text: the column keeps the object's JSON as it came.
  if (person.customAttributes !== undefined) members.custom_attributes = person.customAttributes;
  if (person.phoneNumbers !== undefined) members.phone_numbers = person.phoneNumbers;
  return members;
}

function grouped(
  type: 'user.created' | 'user.updated',
  users: readonly { id: string; projectId: string }[],
): NewEvent[] {
  const events: NewEvent[] = [];
  for (const [projectId, members] of Map.groupBy(users, (user) => user.projectId)) {
    for (let start = 0; start < members.length; start += 1000) {
      events.push({ projectId, type, userIds: members.slice(start, start + 1000).map((user) => user.id) });
    }
  }
  return events;
}

/** What was in memory already is left alone there: to put it in anew would let it go unchecked for longer. */
function remember(identities: Identities, plan: Plan, learnt: ReadonlyMap<string, string>): void {
  for (const [key, owner] of learnt) identities.remember(key, owner);
  for (const [key] of plan.removedKeys) identities.forget(key);
  for (const [key, { userId }] of plan.addedKeys) identities.remember(key, userId);
}

function byId(a: { id: string }, b: { id: string }): number {
  return a.id < b.id ? -1 : 1;
}

const savepoint = sql('users_savepoint', 'savepoint identities');
const releaseSavepoint = sql('users_release', 'release savepoint identities');
const rollbackToSavepoint = sql('users_rollback', 'rollback to savepoint identities');

// Primary key of user_keys.
const selectOwners = sql(
  'select_owners',
  `select wanted.place::int as place, k.user_id, k.deleted
  from unnest($1::uuid[], $2::text[], $3::text[]) with ordinality as wanted (project_id, kind, value, place)
  join user_keys k using (project_id, kind, value)`,
);
const selectDetails = sql(
  'select_identities',
  'select id, external_id, email from users where id = any ($1::uuid[])',
);
// Primary key of users. In the order of ids, and after the identities, as in every other transaction. What it answers is what others
// committed while it waited.
const lockDetails = sql(
  'lock_identities',
  `select id, external_id, email, deleted_at is not null as deleted
  from users
  where id = any ($1::uuid[])
  order by id
  for no key update`,
);
// Primary keys. What a user went by stays known until their end: it is named in what was sent to them.
const deleteKeys = sql(
  'delete_keys',
  `with gone as (
    delete from user_keys k
    using unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as gone (project_id, kind, value, user_id)
    where k.project_id = gone.project_id and k.kind = gone.kind and k.value = gone.value and k.user_id = gone.user_id
    returning k.user_id, k.kind, k.value
  )
  ${KEEP_FORMER}`,
);
const releaseKeys = sql(
  'release_keys',
  `with gone as (
    delete from user_keys k
    using unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as gone (project_id, kind, value, user_id)
    where k.project_id = gone.project_id and k.kind = gone.kind and k.value = gone.value and k.user_id = gone.user_id
      and k.deleted
    returning k.user_id, k.kind, k.value
  ),
  kept as (
    ${KEEP_FORMER}
  )
  select user_id from gone`,
);
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
// The primary key decides who creates a user: the loser waits here for the winner's commit, and then gets no row.
const insertKeys = sql(
  'insert_keys',
  `with written as (
    insert into user_keys (project_id, kind, value, user_id)
    select project_id, kind, value, user_id
    from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as k (project_id, kind, value, user_id)
    on conflict do nothing
    returning 1
  )
  select count(*)::int as count from written`,
);
const insertUsers = sql(
  'insert_users',
  `insert into users (id, project_id, external_id, email, first_name, last_name, custom_attributes, phone_numbers, created_at, updated_at)
  select id, project_id, external_id, email, first_name, last_name, custom_attributes::json,
    phone_numbers::text[], now(), now()
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
    as u (id, project_id, external_id, email, first_name, last_name, custom_attributes, phone_numbers)`,
);
// What a column is to hold: what was said about it, or else what it holds. `u` is the row as it is when it is written, so that what
// another transaction said meanwhile about other columns stays.
const told = (column: string, stored = `u.${column}`, said = `said ->> '${column}'`) =>
  `case when said ? '${column}' then ${said} else ${stored} end`;
const TOLD = {
  external_id: told('external_id'),
  email: told('email'),
  first_name: told('first_name'),
  last_name: told('last_name'),
  custom_attributes: told('custom_attributes', 'u.custom_attributes::text'),
  phone_numbers: told(
    'phone_numbers',
    'u.phone_numbers',
    "array(select jsonb_array_elements_text(said -> 'phone_numbers'))",
  ),
};
// A row is only written, or even locked, when something about it is new: most requests repeat what is known. The rows are locked in
// the order of ids, so that two transactions that change the same users wait instead of deadlocking. Primary key of users.
const updateUsers = sql(
  'update_users',
  `with said as (
    select id, said
    from unnest($1::uuid[], array(select value::jsonb from json_array_elements($2::json))) as s (id, said)
  ),
  changed as (
    select u.id, said
    from said
    join users u using (id)
    where u.deleted_at is null
      and (u.external_id, u.email, u.first_name, u.last_name, u.custom_attributes::text, u.phone_numbers)
      is distinct from
      (${Object.values(TOLD).join(', ')})
    order by u.id
    for no key update of u
  )
  update users u
  set external_id = ${TOLD.external_id},
    email = ${TOLD.email},
    first_name = ${TOLD.first_name},
    last_name = ${TOLD.last_name},
    custom_attributes = (${TOLD.custom_attributes})::json,
    phone_numbers = ${TOLD.phone_numbers},
    updated_at = now()
  from changed
  where u.id = changed.id
  returning u.id, u.project_id`,
);
