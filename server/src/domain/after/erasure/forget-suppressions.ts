import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { canonicalAddress } from '../../ground/identities/address.ts';

/**
 * Takes the phone numbers of users who are being erased out of the suppressions, which stay: see
 * `forgetAddresses`.
 */
export async function forgetPhoneNumbers(
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
  await forget(
    tx,
    users.map(({ id }) => id),
    found,
  );
}

/**
 * Takes the addresses of users who are being erased out of the suppressions: the e-mail addresses that they
 * ever had, and what was met with them. A suppression stays and works, by its hash. An address that somebody
 * else is known to have stays, too, until they are erased.
 */
export async function forgetAddresses(tx: Queryable, userIds: readonly string[]): Promise<void> {
  await forget(tx, userIds, await tx.query<Found>(findByUsers, [uuidArray(userIds)]));
}

interface Found {
  project_id: string;
  id: string;
}

async function forget(tx: Queryable, userIds: readonly string[], found: readonly Found[]): Promise<void> {
  if (found.length === 0) return;
  await tx.query(forgetFound, [
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
// Primary keys of suppressions and user_keys. In the order that they come in, which is that in which all lock
// them. A statement of its own: how many have a user in common is guessed far too high, and then it was
// planned to read all that the project has.
const forgetFound = sql(
  'forget_suppressed_addresses',
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
  left_over as (
    select s.project_id, s.id, others.ids,
      cardinality(others.ids) > 0
        or (
          select true
          from user_keys k
          where k.project_id = s.project_id and k.kind = 'email' and k.value = s.address
          limit 1
        ) as had
    from locked s
    cross join lateral (select array(select unnest(s.user_ids) except select unnest($1::uuid[])) as ids) others
  )
  update suppressions s
  set user_ids = l.ids,
    address = case when l.had then s.address end,
    detail = case when l.had then s.detail end,
    note = case when l.had then s.note end
  from left_over l
  where s.project_id = l.project_id and s.id = l.id`,
);
