import { isNamed, type Recipient } from '../../../contract/broadcast.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { chunksOf } from '../../../lib/chunks.ts';
import { NEWEST, OLDEST } from '../../../lib/cursor.ts';
import { readJson, writeJson } from '../../../lib/exact-numbers.ts';
import { packJsonInThread, unpackJsonInTurns } from '../../../lib/packed-json.ts';
import { identityKey, identityKeysOf } from '../../ground/identities/identities.ts';
import { erasedName, isErasedName, USER_WAS_ERASED } from '../../line/broadcasts/stored-broadcast.ts';
import { eraseUnsent } from './erase-content.ts';

/**
 * Removes purged users from the recipients of broadcasts that are not sent, or not yet: no notification leads
 * to them. Erases the content of one whose recipients are all erased.
 */
export async function redactUnsent(tx: Queryable, userIds: readonly string[]): Promise<void> {
  const broadcasts = await tx.query<{ id: string }>(selectUnsent, [uuidArray(userIds)]);
  if (broadcasts.length === 0) return;
  const { erased } = await redactRecipients(tx, new Map(broadcasts.map(({ id }) => [id, userIds])));
  await eraseUnsent(tx, [...erased]);
}

/** What is left in broadcasts that no user has received. */
interface Unsent {
  /** The ids of those whose recipients are all erased. */
  erased: Set<string>;
  /** Those of the others. */
  needed: Set<string>;
}

// At a time: a broadcast may have a thousand recipients, each with any amount of data.
const BROADCASTS = 20;

/**
 * Removes purged users from the stored recipients of broadcasts and from their errors. An entry becomes
 * `{"external_id": "deleted:<user id>"}`; all other entries stay byte for byte. The identities of the users
 * come from former_user_keys. `usersOf` has the users of each broadcast: in another one, an identity that one
 * of them had may be that of another user. Returns those of the broadcasts that no user has received.
 */
export async function redactRecipients(
  tx: Queryable,
  usersOf: ReadonlyMap<string, readonly string[]>,
): Promise<Unsent> {
  const unsent: Unsent = { erased: new Set(), needed: new Set() };
  // Many broadcasts may share one list of users.
  const lists = [...new Set(usersOf.values())];
  const names = await tx.query<FormerName>(selectNames, [uuidArray([...new Set(lists.flat())])]);
  const namesOfUser = Map.groupBy(names, (name) => name.user_id);
  const ownersOf = new Map(lists.map((users) => [users, ownersAmong(users, namesOfUser)]));
  // Broadcasts are always locked in the order of their ids.
  for (const ids of chunksOf([...usersOf.keys()].sort(), BROADCASTS)) {
    const rows = await tx.query<Row>(lockBroadcasts, [uuidArray(ids)]);
    const redacted: Redacted[] = [];
    for (const row of rows) {
      const { changed, isAll } = await redact(row, ownersOf.get(usersOf.get(row.id) ?? []) ?? new Map());
      if (changed !== undefined) redacted.push(changed);
      if (row.unsent) unsent[isAll ? 'erased' : 'needed'].add(row.id);
    }
    if (redacted.length === 0) continue;
    await tx.query(updateBroadcasts, [
      uuidArray(redacted.map(({ id }) => id)),
      redacted.map(({ recipients }) => recipients),
      textArray(redacted.map(({ errors }) => errors)),
    ]);
  }
  return unsent;
}

/** These users by their former identities. */
function ownersAmong(
  users: readonly string[],
  namesOfUser: ReadonlyMap<string, readonly FormerName[]>,
): Map<string, string> {
  const names = users.flatMap((userId) => namesOfUser.get(userId) ?? []);
  return new Map(
    names.map(({ project_id, kind, value, user_id }) => [identityKey(project_id, kind, value), user_id]),
  );
}

interface FormerName {
  user_id: string;
  project_id: string;
  kind: 'external_id' | 'email';
  value: string;
}

interface Row {
  id: string;
  project_id: string;
  recipients: Buffer;
  errors: string | null;
  unsent: boolean;
}

type Redacted = Pick<Row, 'id' | 'recipients' | 'errors'>;

/**
 * Returns the row without these users, found by their former identities, if it has any of them; and whether
 * all its recipients are erased then.
 */
async function redact(
  { id, project_id: projectId, recipients, errors }: Row,
  owners: ReadonlyMap<string, string>,
): Promise<{ changed?: Redacted; isAll: boolean }> {
  const gone = new Set<number>();
  const entries = readJson(await unpackJsonInTurns([recipients])) as Recipient[];
  for (const [position, recipient] of entries.entries()) {
    const userId = ownerOf(projectId, recipient, owners);
    if (userId === undefined) continue;
    gone.add(position);
    entries[position] = { external_id: erasedName(userId) };
  }
  const isErased = (entry: Recipient) => isNamed(entry) && isErasedName(entry.external_id ?? undefined);
  const isAll = entries.length > 0 && entries.every(isErased);
  if (gone.size === 0) return { isAll };
  const packed = await packJsonInThread(writeJson(entries));
  return { changed: { id, recipients: packed, errors: withoutNames(errors, gone) }, isAll };
}

/** The purged user of an entry: by the external id or, without one, by the e-mail address. */
function ownerOf(
  projectId: string,
  recipient: Recipient,
  owners: ReadonlyMap<string, string>,
): string | undefined {
  if (!isNamed(recipient)) return undefined;
  const { external_id, email } = recipient;
  const names = identityKeysOf({
    projectId,
    externalId: external_id ?? undefined,
    email: email ?? undefined,
  });
  return owners.get(names.id ?? names.email ?? '');
}

/** An error may quote a part of an entry. */
function withoutNames(errors: string | null, gone: ReadonlySet<number>): string | null {
  if (errors === null) return null;
  const all = JSON.parse(errors) as { message: string }[];
  return JSON.stringify(
    all.map(({ message }) => {
      const position = /^recipients\.(\d+): /.exec(message)?.[1];
      return position !== undefined && gone.has(Number(position))
        ? { message: `recipients.${position}: ${USER_WAS_ERASED}` }
        : { message };
    }),
  );
}

// Primary key of users; index broadcasts_scheduled (project_id, id).
const selectUnsent = sql(
  'unsent_broadcasts_to_redact',
  `select b.id
  from (select distinct project_id from users where id = any ($1::uuid[])) u
  cross join lateral (
    select id
    from broadcasts
    where (project_id, id) >= (u.project_id, '${OLDEST}') and (project_id, id) <= (u.project_id, '${NEWEST}')
      and waiting
  ) b`,
);
// Primary keys.
const selectNames = sql(
  'names_of_purged_users',
  `select k.user_id, u.project_id, k.kind, k.value
  from former_user_keys k
  join users u on u.id = k.user_id
  where k.user_id = any ($1::uuid[])`,
);
const lockBroadcasts = sql(
  'broadcasts_to_redact',
  `select id, project_id, recipients, errors,
    waiting is true or (cancelled_at is not null and total = 0) as unsent
  from broadcasts
  where id = any ($1::uuid[]) and recipients is not null
  order by id
  for no key update`,
);
const updateBroadcasts = sql(
  'redact_broadcasts',
  `update broadcasts b
  set recipients = redacted.recipients, errors = redacted.errors::json
  from unnest($1::uuid[], $2::bytea[], $3::text[]) as redacted (id, recipients, errors)
  where b.id = redacted.id`,
);
