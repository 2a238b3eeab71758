import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Advanced } from './advance.ts';

/** Stores how many runs have led to the broadcasts of these turns, if events started the runs. */
export async function markBroadcasts(tx: Queryable, turns: readonly Advanced[]): Promise<void> {
  const marks = turns.flatMap(({ run: { depth }, broadcast }) =>
    depth > 0 && broadcast !== null ? [{ id: broadcast.id, depth }] : [],
  );
  if (marks.length === 0) return;
  await tx.query(insertBroadcasts, [uuidArray(marks.map(({ id }) => id)), marks.map(({ depth }) => depth)]);
}

// Primary key.
const insertBroadcasts = sql(
  'mark_broadcasts_of_runs',
  `insert into workflow_broadcasts (broadcast_id, depth)
  select *
  from unnest($1::uuid[], $2::smallint[]) as b (broadcast_id, depth)
  order by broadcast_id
  on conflict (broadcast_id) do nothing`,
);
