import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { type NewEvent, recordEvents } from '../../ground/events/record.ts';
import type { Person, Plan } from './plan.ts';

/**
 * Creates users and writes what is said about others, each with its event. Answers which of those who exist
 * were changed by it.
 */
export async function writeUsers(
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

function byId(a: { id: string }, b: { id: string }): number {
  return a.id < b.id ? -1 : 1;
}

const insertUsers = sql(
  'insert_users',
  `insert into users (id, project_id, external_id, email, first_name, last_name, custom_attributes, phone_numbers, created_at, updated_at)
  select id, project_id, external_id, email, first_name, last_name, custom_attributes::json,
    phone_numbers::text[], now(), now()
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
    as u (id, project_id, external_id, email, first_name, last_name, custom_attributes, phone_numbers)`,
);
// What a column is to hold: what was said about it, or else what it holds. `u` is the row as it is when it is
// written, so that what another transaction said meanwhile about other columns stays.
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
// A row is only written, or even locked, when something about it is new: most requests repeat what is known.
// The rows are locked in the order of ids, so that two transactions that change the same users wait instead
// of deadlocking. Primary key of users.
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
