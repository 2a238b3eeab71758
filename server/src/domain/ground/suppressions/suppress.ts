import {
  SUPPRESSION_REASONS,
  type SuppressionKind,
  type SuppressionReason,
} from '../../../contract/suppression.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { systemClock } from '../../../lib/clock.ts';
import { newId } from '../../../lib/ids.ts';
import { withoutAddress } from '../../../lib/without-address.ts';
import { type NewEvent, recordEvents } from '../events/record.ts';
import { type Address, addressHash, canonicalAddress } from '../identities/address.ts';
import type { AddressKeys } from './address-keys.ts';

/** An address to which a project must send nothing. */
export interface NewSuppression extends Address {
  projectId: string;
  reason: SuppressionReason;
  /** The provider's explanation. */
  detail: string | null;
  provider: string | null;
  /** The user with this address, if known. */
  userId?: string;
}

const MAX_DETAIL_CHARACTERS = 1_000;

/**
 * Suppresses addresses in the caller's transaction, by one statement for all, and records their events. An
 * address that is suppressed already keeps its row, with the stronger of both reasons. The address is stored
 * if a user has it or if it was entered `byHand`, then with its note. Skips projects whose key cannot be
 * opened.
 */
export async function suppressAddresses(
  { db, addressKeys }: { db: Queryable; addressKeys: AddressKeys },
  list: readonly NewSuppression[],
  { byHand }: { byHand?: { note?: string | null | undefined } } = {},
): Promise<void> {
  if (list.length === 0) return;
  const keys = await addressKeys.findOrCreate(
    db,
    list.map(({ projectId }) => projectId),
  );
  const rows = new Map<string, Row>();
  for (const one of list) {
    const key = keys.get(one.projectId);
    if (key === undefined) continue;
    const row = rowOf(one, addressHash(key, one));
    const name = `${one.projectId}${row.hash.toString('hex')}`;
    rows.set(name, merged(rows.get(name), row));
  }
  if (rows.size === 0) return;
  const made = [...rows.values()];
  const now = new Date(systemClock.now());
  const written = await db.query<SuppressedRow>(byHand?.note === undefined ? upsert : upsertWithNote, [
    uuidArray(made.map((row) => row.projectId)),
    uuidArray(made.map((row) => row.id)),
    made.map((row) => row.kind),
    made.map((row) => row.hash),
    textArray(made.map((row) => row.address)),
    made.map((row) => row.reason),
    textArray(made.map((row) => row.provider)),
    textArray(made.map((row) => row.detail)),
    textArray(made.map((row) => uuidArray(row.userIds))),
    byHand !== undefined,
    byHand?.note ?? null,
    now,
  ]);
  const added = new Set(made.map(({ id }) => id));
  await recordEvents(
    db,
    written.flatMap((row) => {
      if (added.has(row.id)) return [suppressionEvent('suppression.added', row)];
      return row.updated_at.getTime() === now.getTime() ? [suppressionEvent('suppression.updated', row)] : [];
    }),
  );
}

/**
 * Returns the event of a suppression. It contains the suppression's id and known users, never the address.
 */
export function suppressionEvent(
  type: 'suppression.added' | 'suppression.updated' | 'suppression.lifted',
  row: { project_id: string; id: string; kind: SuppressionKind; user_ids: readonly string[] },
): NewEvent {
  const users = row.user_ids.length === 0 ? {} : { user_ids: row.user_ids };
  return {
    projectId: row.project_id,
    type,
    details: { context: { suppression_id: row.id, kind: row.kind, ...users } },
  };
}

interface Row {
  projectId: string;
  id: string;
  kind: SuppressionKind;
  hash: Buffer;
  address: string;
  reason: SuppressionReason;
  provider: string | null;
  detail: string | null;
  userIds: readonly string[];
}

interface SuppressedRow {
  project_id: string;
  id: string;
  kind: SuppressionKind;
  user_ids: string[];
  updated_at: Date;
}

function rowOf(one: NewSuppression, hash: Buffer): Row {
  const { projectId, kind, reason, provider, userId } = one;
  const address = canonicalAddress(one);
  const detail = one.detail === null ? null : storable(withoutAddress(one.detail, address));
  const userIds = userId === undefined ? [] : [userId];
  return { projectId, id: newId(), kind, hash, address, reason, provider, detail, userIds };
}

function storable(text: string): string {
  return text.replaceAll('\0', '').slice(0, MAX_DETAIL_CHARACTERS).toWellFormed();
}

/** Merges two rows for one address: a statement can write a row only once. */
function merged(held: Row | undefined, row: Row): Row {
  if (held === undefined) return row;
  const stronger = strength(row) > strength(held) ? row : held;
  return { ...stronger, userIds: [...new Set([...held.userIds, ...row.userIds])] };
}

function strength({ reason }: { reason: SuppressionReason }): number {
  return SUPPRESSION_REASONS.indexOf(reason);
}

const RANKS = `array[${SUPPRESSION_REASONS.map((reason) => `'${reason}'`).join(', ')}]`;
const IS_STRONGER = `array_position(${RANKS}, excluded.reason) > array_position(${RANKS}, s.reason)`;

// Unique index suppressions_by_hash, in its order, so that concurrent statements do not deadlock. Primary
// keys of users and user_keys, by subqueries with a limit: for `exists` beside `or` the planner hashes all
// keys of the project. A report that arrives after its user was erased must not store the address.
const UPSERT = (noteWins: boolean) => {
  const isNewNote = noteWins ? '(s.note is distinct from excluded.note)' : 'false';
  return `with given as materialized (
    select g.project_id, g.id, g.kind, g.hash,
      case
        when $10
          or (
            select true
            from users u
            where u.id = any (g.user_ids::uuid[]) and u.deleted_at is distinct from '-infinity'
            limit 1
          )
          or (
            select true
            from user_keys k
            where k.project_id = g.project_id and k.kind = 'email' and k.value = g.address
            limit 1
          )
        then g.address
      end as address,
      g.reason, g.provider, g.detail, g.user_ids::uuid[] as user_ids
    from unnest(
      $1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[],
      $9::text[]
    ) as g (project_id, id, kind, hash, address, reason, provider, detail, user_ids)
  )
  insert into suppressions as s (
    project_id, id, kind, hash, address, reason, provider, detail, user_ids, note, created_at, updated_at
  )
  select project_id, id, kind, hash, address, reason, provider, detail, user_ids, $11, $12, $12
  from given
  order by project_id, hash
  on conflict (project_id, hash) do update
  set reason = case when ${IS_STRONGER} then excluded.reason else s.reason end,
    provider = case when ${IS_STRONGER} then excluded.provider else s.provider end,
    detail = case when ${IS_STRONGER} then excluded.detail else s.detail end,
    note = ${noteWins ? 'excluded.note' : 's.note'},
    updated_at = case when ${IS_STRONGER} or ${isNewNote} then excluded.updated_at else s.updated_at end,
    address = coalesce(s.address, excluded.address),
    user_ids = array(select unnest(s.user_ids) union select unnest(excluded.user_ids))
  where ${IS_STRONGER}
    or ${isNewNote}
    or (s.address is null and excluded.address is not null)
    or not excluded.user_ids <@ s.user_ids
  returning s.project_id, s.id, s.kind, s.user_ids, s.updated_at`;
};
const upsert = sql('suppress_addresses', UPSERT(false));
const upsertWithNote = sql('suppress_addresses_with_note', UPSERT(true));
