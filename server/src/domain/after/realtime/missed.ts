import { isOfOneItem, type Queryable, sql } from '../../../db/client.ts';
import { Batcher } from '../../../lib/batcher.ts';
import type { Clock } from '../../../lib/clock.ts';
import { firstIdAt } from '../../../lib/ids.ts';
import { HIDDEN } from '../../line/notifications/row.ts';
import { type Frame, missedChangeFrame, missedNewFrame, type NotificationState } from './frame.ts';
import { deliveryKey, RESUME_MARGIN_MS, type ResumeCursor } from './resume-cursor.ts';

/** A client that missed more should fetch its list. */
export const MAX_MISSED = 1_000;
/**
 * A notification's id has the time at which its broadcast was accepted, and `sent_at` the time of the
 * fan-out, which is at most this much later.
 */
export const MAX_FAN_OUT_MS = 24 * 60 * 60 * 1000;

export interface MissedRequest {
  userId: string;
  /** The time from which to look; `undefined` for the last margin. */
  sinceMs: number | undefined;
}

/** The result of the database. */
export interface Missed {
  /** The database's time just before the query. */
  nowMs: number;
  /** Notifications that were created or changed since then, in no particular order. */
  states: NotificationState[];
  /** There are more than `MAX_MISSED`; `states` has only some. */
  tooMany: boolean;
}

/** Returns a function that looks up what a user missed. Concurrent calls share a statement. */
export function createMissedReader({
  db,
  clock,
}: {
  db: Queryable;
  clock: Clock;
}): (request: MissedRequest) => Promise<Missed> {
  const batcher = new Batcher<MissedRequest, Missed>({
    run: (requests) => readMissed(db, clock, requests),
    concurrency: 2,
    // At most a thousand rows each: 20 MB in the worst case.
    maxItems: 100,
    splitAfter: isOfOneItem,
  });
  return (request) => batcher.add(request);
}

/** A missed event. Its frame is built when it is sent. */
export interface MissedEvent {
  atMs: number;
  broadcastId: string;
  frame(content: string): Frame;
}

/** The events that a client with this cursor has not received, oldest first. */
export function missedEvents(
  states: readonly NotificationState[],
  cursor: ResumeCursor,
  sinceMs: number,
): MissedEvent[] {
  const events: (MissedEvent & { change: 0 | 1; id: string })[] = [];
  for (const state of states) {
    const { id, broadcastId, sentAtMs, updatedAtMs, discardedAtMs, snoozedUntilMs } = state;
    const isNew = sentAtMs > sinceMs && !cursor.has(deliveryKey(id, sentAtMs));
    // Created and deleted meanwhile.
    if (isNew && discardedAtMs !== null) continue;
    if (isNew && snoozedUntilMs === null) {
      events.push({
        id,
        broadcastId,
        atMs: sentAtMs,
        change: 0,
        frame: (content) => missedNewFrame(state, content),
      });
    }
    // A notification that is shown later counts as changed then, so that it is found here. This is no event.
    const shownThen = updatedAtMs === sentAtMs;
    if (
      updatedAtMs !== null &&
      updatedAtMs > sinceMs &&
      !shownThen &&
      !knowsChange(cursor, state, updatedAtMs)
    ) {
      const frame = (content: string) => missedChangeFrame(state, updatedAtMs, content);
      events.push({ id, broadcastId, atMs: updatedAtMs, change: 1, frame });
    }
  }
  return events.sort((a, b) => a.atMs - b.atMs || a.change - b.change || (a.id < b.id ? -1 : 1));
}

/** The delivery keys of these notifications and of their last changes, with their times. */
export function keysOf(states: readonly NotificationState[]): { key: number; atMs: number }[] {
  return states.flatMap(({ id, sentAtMs, updatedAtMs }) => [
    { key: deliveryKey(id, sentAtMs), atMs: sentAtMs },
    ...(updatedAtMs === null ? [] : [{ key: deliveryKey(id, updatedAtMs), atMs: updatedAtMs }]),
  ]);
}

// A change of all notifications was sent once, with the user's id, and gave all of them the same time.
function knowsChange(cursor: ResumeCursor, { id, userId }: NotificationState, atMs: number): boolean {
  return cursor.has(deliveryKey(id, atMs)) || cursor.has(deliveryKey(userId, atMs));
}

async function readMissed(
  db: Queryable,
  clock: Clock,
  requests: readonly MissedRequest[],
): Promise<Missed[]> {
  const since = requests.map(({ sinceMs }) =>
    sinceMs === undefined ? null : new Date(Math.max(0, sinceMs)).toISOString(),
  );
  const firstIds = requests.map(({ sinceMs }) =>
    firstIdAt(Math.max(0, (sinceMs ?? clock.now() - RESUME_MARGIN_MS) - MAX_FAN_OUT_MS)),
  );
  const rows = await db.query<Row>(selectMissed, [
    requests.map(({ userId }) => userId),
    since,
    firstIds,
    MAX_MISSED + 1,
    RESUME_MARGIN_MS,
  ]);
  const results = requests.map((): Missed => ({ nowMs: 0, states: [], tooMany: false }));
  for (const row of rows) {
    const result = results[row.request - 1];
    if (result === undefined) continue;
    result.nowMs = row.now.getTime();
    if (row.id !== null) result.states.push(toState(row));
  }
  for (const result of results) result.tooMany = result.states.length > MAX_MISSED;
  return results;
}

interface Row extends StateRow {
  request: number;
  now: Date;
}

interface StateRow {
  user_id: string;
  /** Null if the user missed nothing, like all following columns. */
  id: string | null;
  broadcast_id: string;
  sent_at: Date;
  seen_at: Date | null;
  read_at: Date | null;
  archived_at: Date | null;
  discarded_at: Date | null;
  snoozed_until: Date | null;
  updated_at: Date | null;
}

/** The state of a notification in a row. */
export function toState(row: StateRow): NotificationState {
  return {
    id: row.id ?? '',
    userId: row.user_id,
    broadcastId: row.broadcast_id,
    sentAtMs: row.sent_at.getTime(),
    seenAtMs: row.seen_at?.getTime() ?? null,
    readAtMs: row.read_at?.getTime() ?? null,
    archivedAtMs: row.archived_at?.getTime() ?? null,
    discardedAtMs: row.discarded_at?.getTime() ?? null,
    snoozedUntilMs: row.snoozed_until?.getTime() ?? null,
    updatedAtMs: row.updated_at?.getTime() ?? null,
  };
}

const COLUMNS = `id, broadcast_id, sent_at, seen_at, read_at, archived_at,
        nullif(discarded_at, ${HIDDEN}) as discarded_at, snoozed_until, updated_at`;

// The first part reads the primary key (user_id, id) from the newest on, the second notifications_changed
// (user_id, updated_at). One statement, so that both see the same moment: a change cannot overtake its
// notification.
const selectMissed = sql(
  'select_missed',
  `select r.request::int as request, statement_timestamp() as now, r.user_id, m.*
  from unnest($1::uuid[], $2::timestamptz[], $3::uuid[])
    with ordinality as r (user_id, since, first_id, request)
  left join lateral (
    (
      select ${COLUMNS}
      from notifications
      where user_id = r.user_id
        and id >= r.first_id
        and sent_at >= coalesce(r.since, statement_timestamp() - $5 * interval '1 millisecond')
        and discarded_at is distinct from ${HIDDEN}
      order by id desc
      limit $4
    )
    union
    (
      select ${COLUMNS}
      from notifications
      where user_id = r.user_id
        and updated_at >= coalesce(r.since, statement_timestamp() - $5 * interval '1 millisecond')
      order by updated_at desc
      limit $4
    )
  ) m on true`,
);
