import { isEventType } from '../../../contract/event.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { firstIdAt, timeOf } from '../../../lib/ids.ts';
import { type EventRow, expand } from '../../ground/events/expand.ts';
import { numbersOf, storedTypes } from '../../ground/events/stored-types.ts';
import { arrivedEvents } from '../feed/arrived-event.ts';
import type { Advanced } from './advance.ts';
import { continueWaiting } from './continue-waiting.ts';

const MAX_AGE_MS = 10 * 60_000;
const MAX_ROWS = 500;
const MAX_EVENTS = 10_000;
// Between the clocks of two servers.
const MAX_SKEW_MS = 5_000;

/**
 * Continues runs that wait since these turns for an event of the notification that they have sent, if it came
 * before. Events that the reader of the feed has not read yet continue them later.
 */
export async function lookBack(tx: Queryable, turns: readonly Advanced[], nowMs: number): Promise<void> {
  const sent = turns.flatMap(({ run, next, broadcastId }) => {
    const type = next.kind === 'wait' ? next.event : undefined;
    const isSent = type !== undefined && isEventType(type) && broadcastId !== null;
    return isSent ? [{ run, type, broadcastId }] : [];
  });
  for (const [projectId, runs] of Map.groupBy(sent, ({ run }) => run.project_id)) {
    const types = [...new Set(runs.map(({ type }) => type))];
    const oldestMs = Math.min(...runs.map(({ broadcastId }) => timeOf(broadcastId)));
    const rows = await tx.query<EventRow>(selectEvents, [
      projectId,
      textArray(storedTypes(types)),
      firstIdAt(Math.max(oldestMs, nowMs - MAX_AGE_MS) - MAX_SKEW_MS),
      uuidArray([...new Set(runs.map(({ broadcastId }) => broadcastId))]),
      MAX_ROWS,
    ]);
    const users = new Set(runs.map(({ run }) => run.user_id));
    const events = rows.flatMap((row) => {
      const { from, to } = numbersOf(row, types);
      return expand(row, from, to, 0).flatMap((event) => arrivedEvents(event, null));
    });
    const of = events.filter(({ userId }) => users.has(null) || userId === null || users.has(userId));
    const only = new Set(runs.map(({ run }) => run.id));
    if (of.length > 0) await continueWaiting(tx, projectId, of.slice(0, MAX_EVENTS), { nowMs, only });
  }
}

// Primary key of workflow_feeds; index events_of_type (project_id, type, id), each type by itself.
const selectEvents = sql(
  'events_before_waits',
  `select e.*
  from workflow_feeds f
  cross join unnest($2::text[]) as t (type)
  cross join lateral (
    select id, type, size, broadcast_id, broadcast_ids, user_ids, details
    from events
    where project_id = $1 and type = t.type and id >= $3 and (xact, id) <= (f.feed_xact, f.feed_id)
      and (broadcast_id = any ($4::uuid[]) or broadcast_ids && $4::uuid[])
    order by id
    limit $5
  ) e
  where f.project_id = $1
  order by e.id`,
);
