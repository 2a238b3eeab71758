import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { broadcastIdOf } from './advance.ts';
import type { LoadedRun } from './load.ts';

/**
 * Stores how many runs have led to the broadcasts that these runs may send in this turn, if events started
 * them. It is stored before the broadcast is sent, because its first event may start the next run.
 */
export async function markBroadcasts(db: Queryable, runs: readonly LoadedRun[]): Promise<void> {
  const started = runs.filter(({ depth, program }) => depth > 0 && program.sendsBroadcasts);
  if (started.length === 0) return;
  await db.query(insertBroadcasts, [
    uuidArray(started.map(broadcastIdOf)),
    started.map(({ depth }) => depth),
  ]);
}

// Primary key.
const insertBroadcasts = sql(
  'mark_broadcasts_of_runs',
  `insert into workflow_broadcasts (broadcast_id, depth)
  select *
  from unnest($1::uuid[], $2::smallint[])
  on conflict (broadcast_id) do nothing`,
);
