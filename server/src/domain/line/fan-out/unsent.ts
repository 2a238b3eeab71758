import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { identityValue } from '../../ground/identities/identities.ts';
import { refuseRecipients } from '../../people/users/refuse.ts';
import { isErasedName } from '../broadcasts/stored-broadcast.ts';
import type { BroadcastPage } from './write-fan-out.ts';

/**
 * Records the users that broadcasts name which were cancelled before they were sent: there is no notification
 * by which the purge of a user could find them. A broadcast that also names a person without a user stays
 * `waiting`, because a purge searches such broadcasts for names.
 */
export async function keepNames(
  tx: Queryable,
  broadcasts: readonly Pick<BroadcastPage, 'id' | 'unsent'>[],
): Promise<void> {
  const named = broadcasts.flatMap(({ id, unsent }) =>
    unsent.filter(({ externalId }) => !isErasedName(externalId)).map((person) => ({ id, ...person })),
  );
  if (named.length === 0) return;
  const rows = await tx.query<{ place: number; user_id: string }>(findNamed, [
    uuidArray(named.map(({ projectId }) => projectId)),
    textArray(named.map(({ externalId }) => (externalId === undefined ? 'email' : 'external_id'))),
    textArray(named.map(({ externalId, email = '' }) => externalId ?? identityValue('email', email))),
  ]);
  const userOf = new Map(rows.map(({ place, user_id }) => [place - 1, user_id]));
  await refuseRecipients(
    tx,
    named.flatMap(({ id: broadcastId }, at) => {
      const userId = userOf.get(at);
      return userId === undefined ? [] : [{ userId, broadcastId }];
    }),
  );
  const unknown = new Set(named.flatMap(({ id }, at) => (userOf.has(at) ? [] : [id])));
  if (unknown.size > 0) await tx.query(setWaiting, [[...unknown]]);
}

// Primary key. Locked until the commit, so that a purge that begins meanwhile finds what is recorded here.
const findNamed = sql(
  'find_named_in_cancelled',
  `select given.place::int as place, k.user_id
  from unnest($1::uuid[], $2::text[], $3::text[]) with ordinality as given (project_id, kind, value, place)
  join user_keys k using (project_id, kind, value)
  order by k.project_id, k.kind, k.value
  for share of k`,
);
const setWaiting = sql(
  'keep_cancelled_waiting',
  `with locked as (
    select id from broadcasts where id = any ($1::uuid[]) order by id for no key update
  )
  update broadcasts b
  set waiting = true
  from locked
  where b.id = locked.id`,
);
