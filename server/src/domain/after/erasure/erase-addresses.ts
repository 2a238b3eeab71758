import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { canonicalAddress } from '../../ground/identities/address.ts';

/** Removes the phone numbers of users that are being erased from suppressions; see `eraseAddresses`. */
export async function erasePhoneNumbers(
  tx: Queryable,
  users: readonly { id: string; project_id: string; phone_numbers: readonly string[] }[],
): Promise<void> {
  const numbers = users.flatMap(({ id, project_id, phone_numbers }) =>
    phone_numbers.map((address) => ({
      id,
      project_id,
      address: canonicalAddress({ kind: 'phone', address }),
    })),
  );
  if (numbers.length === 0) return;
  const found = await tx.query<Found>(findByNumbers, [
    uuidArray(numbers.map((one) => one.project_id)),
    textArray(numbers.map(({ address }) => address)),
  ]);
  await erase(
    tx,
    users.map(({ id }) => id),
    found,
  );
}

/**
 * Removes the addresses of users that are being erased from suppressions: their current and former e-mail
 * addresses, with the details. A suppression continues to work by its hash. An address that another user has
 * stays until that user is erased.
 */
export async function eraseAddresses(tx: Queryable, userIds: readonly string[]): Promise<void> {
  await erase(tx, userIds, await tx.query<Found>(findByUsers, [uuidArray(userIds)]));
}

interface Found {
  project_id: string;
  id: string;
}

async function erase(tx: Queryable, userIds: readonly string[], found: readonly Found[]): Promise<void> {
  if (found.length === 0) return;
  await tx.query(eraseFound, [
    uuidArray(userIds),
    uuidArray(found.map((one) => one.project_id)),
    uuidArray(found.map(({ id }) => id)),
  ]);
}

// Index suppressions_by_address.
const findByNumbers = sql(
  'find_suppressed_phone_numbers',
  `select distinct s.project_id, s.id, s.hash
  from unnest($1::uuid[], $2::text[]) as n (project_id, address)
  join suppressions s on s.project_id = n.project_id and s.address = n.address and s.address is not null
  order by s.project_id, s.hash`,
);
// Indexes suppressions_of_users and suppressions_by_address, primary keys of users and former_user_keys.
const findByUsers = sql(
  'find_suppressions_of_users',
  `select s.project_id, s.id, s.hash
  from suppressions s
  where s.user_ids && $1::uuid[]
  union
  select s.project_id, s.id, s.hash
  from users u
  join former_user_keys f on f.user_id = u.id and f.kind = 'email'
  join suppressions s on s.project_id = u.project_id and s.address = f.value and s.address is not null
  where u.id = any ($1::uuid[])
  order by project_id, hash`,
);
// Primary keys of suppressions and user_keys. Locks in the given order, which all statements use. It is not
// one statement with the query above: PostgreSQL overestimates how many suppressions have a user in common,
// and would read all of the project.
const eraseFound = sql(
  'erase_suppressed_addresses',
  `with locked as (
    select s.project_id, s.id, s.address, s.user_ids
    from unnest($2::uuid[], $3::uuid[]) as f (project_id, id)
    cross join lateral (
      select *
      from suppressions s
      where s.project_id = f.project_id and s.id = f.id
      for update
    ) s
  ),
  remaining as (
    select s.project_id, s.id, others.ids,
      cardinality(others.ids) > 0
        or (
          select true
          from user_keys k
          where k.project_id = s.project_id and k.kind = 'email' and k.value = s.address
          limit 1
        ) as had
    from locked s
    cross join lateral (
      select array(select unnest(s.user_ids) except select unnest($1::uuid[])) as ids
    ) others
  )
  update suppressions s
  set user_ids = l.ids,
    address = case when l.had then s.address end,
    detail = case when l.had then s.detail end,
    note = case when l.had then s.note end
  from remaining l
  where s.project_id = l.project_id and s.id = l.id`,
);
