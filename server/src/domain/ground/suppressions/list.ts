import {
  SUPPRESSION_KINDS,
  SUPPRESSION_REASONS,
  type Suppression,
  type SuppressionKind,
  type SuppressionListQuery,
  type SuppressionReason,
} from '../../../contract/suppression.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { bothDirections } from '../../../db/list-statements.ts';
import type { Cursor } from '../../../lib/cursor.ts';
import { type Address, addressHash, canonicalAddress } from '../identities/address.ts';
import type { AddressKeys } from './address-keys.ts';

/** A row of suppressions. */
export interface SuppressionRow {
  id: string;
  kind: SuppressionKind;
  address: string | null;
  reason: SuppressionReason;
  provider: string | null;
  detail: string | null;
  note: string | null;
  created_at: Date;
  updated_at: Date;
}

/** Returns a suppression as the API shows it. */
export function toSuppression(row: SuppressionRow): Suppression {
  return {
    id: row.id,
    kind: row.kind,
    email: row.kind === 'email' ? row.address : null,
    phone_number: row.kind === 'phone' ? row.address : null,
    reason: row.reason,
    provider: row.provider,
    detail: row.detail,
    note: row.note,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

/** Returns the project's suppression with this id. */
export async function getSuppression(
  db: Queryable,
  projectId: string,
  id: string,
): Promise<SuppressionRow | undefined> {
  return (await db.query<SuppressionRow>(selectSuppression, [projectId, id]))[0];
}

/** Returns the project's suppression of this address, even if its address was erased. */
export async function suppressionOf(
  { db, addressKeys }: { db: Queryable; addressKeys: AddressKeys },
  projectId: string,
  address: Address,
): Promise<SuppressionRow | undefined> {
  const key = (await addressKeys.find(db, [projectId])).get(projectId);
  if (key === undefined) return undefined;
  return (await db.query<SuppressionRow>(selectByHash, [projectId, addressHash(key, address)]))[0];
}

/**
 * Returns up to `limit` suppressions of the project beyond the cursor, nearest first. Filters by kind, reason
 * and address.
 */
export async function listSuppressions(
  deps: { db: Queryable; addressKeys: AddressKeys },
  projectId: string,
  { kind, reason, query }: Pick<SuppressionListQuery, 'kind' | 'reason' | 'query'>,
  { direction, id, limit }: Cursor,
): Promise<SuppressionRow[]> {
  const kinds = kind === undefined ? [...SUPPRESSION_KINDS] : [kind];
  const reasons = reason === undefined ? [...SUPPRESSION_REASONS] : [reason];
  if (!query) return deps.db.query<SuppressionRow>(LIST[direction], [projectId, kinds, reasons, id, limit]);
  const row = await suppressionOf(deps, projectId, {
    kind: query.includes('@') ? 'email' : 'phone',
    address: query,
  });
  if (row === undefined || !kinds.includes(row.kind) || !reasons.includes(row.reason)) return [];
  return (direction === 'older' ? row.id < id : row.id > id) ? [row] : [];
}

/** Returns the suppressions of the addresses that a user has, had, or was known with. */
export async function suppressionsOfUser(
  db: Queryable,
  projectId: string,
  user: { id: string; email: string | null; phone_numbers: readonly string[] },
): Promise<Suppression[]> {
  const { id, email, phone_numbers: numbers } = user;
  const addresses = [
    ...(email === null ? [] : [canonicalAddress({ kind: 'email', address: email })]),
    ...numbers.map((address) => canonicalAddress({ kind: 'phone', address })),
  ];
  const rows = await db.query<SuppressionRow>(selectOfUser, [
    projectId,
    uuidArray([id]),
    textArray(addresses),
  ]);
  return rows.map(toSuppression);
}

const COLUMNS = 'id, kind, address, reason, provider, detail, note, created_at, updated_at';

// Primary key.
const selectSuppression = sql(
  'get_suppression',
  `select ${COLUMNS} from suppressions where project_id = $1 and id = $2`,
);
// Unique index suppressions_by_hash.
const selectByHash = sql(
  'get_suppression_by_hash',
  `select ${COLUMNS} from suppressions where project_id = $1 and hash = $2`,
);
// Indexes suppressions_of_users and suppressions_by_address, and primary key of former_user_keys.
const selectOfUser = sql(
  'suppressions_of_user',
  `select ${COLUMNS}
  from suppressions
  where project_id = $1 and user_ids && $2::uuid[]
  union
  select ${COLUMNS}
  from suppressions
  where project_id = $1 and address is not null and address = any (
    $3::text[] || array(select value from former_user_keys where user_id = any ($2) and kind = 'email')
  )
  order by id`,
);
// Index suppressions_listed: one scan per kind and reason, at most ten, so that no filter reads rows that it
// leaves out.
const LIST = bothDirections(
  'suppressions',
  (beyond, order) => `select one.*
  from unnest($2::text[]) as k (kind)
  cross join unnest($3::text[]) as r (reason)
  cross join lateral (
    select ${COLUMNS}
    from suppressions s
    where s.project_id = $1 and s.kind = k.kind and s.reason = r.reason and s.id ${beyond} $4
    order by s.id ${order}
    limit $5
  ) one
  order by one.id ${order}
  limit $5`,
);
