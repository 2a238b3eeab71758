import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { newId } from '../../../lib/ids.ts';

/**
 * Has the events of these projects read for workflows, from now on if they are not read yet. Until the
 * caller's transaction ends, none is read: call this before the transaction locks runs.
 */
export async function followEvents(tx: Queryable, projectIds: readonly string[]): Promise<void> {
  const ids = uuidArray([...new Set(projectIds)].sort());
  await tx.query(lockShared, [ids]);
  await tx.query(insertFeeds, [ids, newId()]);
}

/** Locks the feed of a project, so that one server reads it, and nothing begins to need it meanwhile. */
export async function lockFeed(tx: Queryable, projectId: string): Promise<void> {
  await tx.query(lockAlone, [projectId]);
}

// Advisory locks are granted in the order of the requests. With locks of the row, many runs that begin to
// wait could keep the reader out for long.
const lockShared = sql(
  'share_workflow_feeds',
  `select pg_advisory_xact_lock_shared(hashtextextended('workflow feed ' || id, 0))
  from unnest($1::uuid[]) as f (id)`,
);
const lockAlone = sql(
  'lock_workflow_feed',
  `select pg_advisory_xact_lock(hashtextextended('workflow feed ' || $1::uuid, 0))`,
);
// Primary key. The feed begins behind the newest transaction before which all have ended: xmin itself may be
// open, with events whose ids are older than this one. The id makes a restored feed begin at the time when it
// was added.
const insertFeeds = sql(
  'add_workflow_feeds',
  `insert into workflow_feeds (project_id, feed_xact, feed_id)
  select id, (pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1)::text::xid8, $2
  from unnest($1::uuid[]) as f (id)
  order by id
  on conflict (project_id) do nothing`,
);
