import { setTimeout as delay } from 'node:timers/promises';
import type { Event, EventType } from '../../../contract/event.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { isId } from '../../../lib/ids.ts';
import { type EventRow, eventId, expand, splitEventId } from './expand.ts';
import { nameUsers } from './name-users.ts';
import { countOf, numbersOf, storedTypes, TYPES_OF_ROW } from './stored-types.ts';

/**
 * A position in a project's feed: after the event `eventId`, which the transaction `xact` wrote. The feed is
 * ordered by transaction, then by id, and ends before the oldest running transaction. So no event is ever
 * inserted before a position that was read. By id alone that could happen: ids are assigned before the
 * commit.
 */
export interface FeedPosition {
  xact: string;
  eventId: string;
}

export interface FeedRequest {
  projectId: string;
  after: FeedPosition;
  /** Events of other types are skipped. */
  types?: readonly EventType[] | undefined;
}

/** A part of the feed. */
export interface FeedPart {
  /** In feed order. */
  events: { event: Event; position: FeedPosition }[];
  /** The end of the part, even if the type of its last event was not requested. */
  position: FeedPosition;
  /** Whether the part was cut because of its length. */
  more: boolean;
}

// Rows of a part, including skipped ones, which are read too.
const MAX_ROWS = 50;
// A row has up to 2,000 events, mostly few. The part ends with the row that reaches this number.
const MAX_EVENTS = 1_000;

/** Returns the next part of the feed for each request, in three statements. */
export async function readFeed(db: FeedDatabase, requests: readonly FeedRequest[]): Promise<FeedPart[]> {
  const from = requests.map(({ after }) => splitEventId(after.eventId));
  const horizon = await feedHorizon(db);
  const rows = await db.query<FeedRow>(selectFeed, [
    requests.map(({ projectId }) => projectId),
    requests.map(({ after }) => after.xact),
    from.map(({ rowId }) => rowId),
    from.map(({ number }) => number),
    requests.map(({ types }) => types && `{${storedTypes(types)}}`),
    MAX_ROWS,
    MAX_EVENTS,
    horizon,
  ]);
  const parts = requests.map(({ after }): FeedPart => ({ events: [], position: after, more: false }));
  for (const row of rows) {
    const part = parts[row.request - 1];
    const request = requests[row.request - 1];
    if (part === undefined || request === undefined) continue;
    const { rowId, number } = splitEventId(request.after.eventId);
    const { from, to } = numbersOf(row, request.types);
    for (const event of expand(row, row.id === rowId ? Math.max(from, number + 1) : from, to, 0))
      part.events.push({ event, position: { xact: row.xact, eventId: event.id } });
    part.position = { xact: row.xact, eventId: eventId(row.id, countOf(row) - 1) };
    part.more = row.place === MAX_ROWS || row.cut;
  }
  const events = parts.flatMap((part) => part.events.map(({ event }) => event));
  await nameUsers(db, events);
  return parts;
}

/**
 * Returns the oldest running transaction. Statements that begin later see all events of earlier ones, and may
 * read up to them. It has a statement of its own: on a distributed PostgreSQL, transactions have the ids of
 * the coordinator, and a statement that reads a table runs on a worker, which has others.
 */
export async function feedHorizon(db: FeedDatabase): Promise<string> {
  const { horizon } = await selectTransactions(db);
  if (db.isDistributed) await untilCommitted(db);
  return horizon;
}

/** What feeds are read from: not a transaction, because reading may have to wait. */
export type FeedDatabase = Pick<Database, 'query' | 'isDistributed'>;

// After a crash of a worker, Citus needs up to a minute to commit what was prepared there.
const COMMIT_POLL_MS = 5;
const MAX_COMMIT_MS = 2_000;

/**
 * Waits until the worker of a distributed database has committed what is prepared there now. The coordinator
 * commits first, and then lets the worker commit: in between, events of a transaction that has ended cannot
 * be read. Throws if that takes long; the reader then tries again later.
 */
async function untilCommitted(db: Queryable): Promise<void> {
  const prepared = async () => (await db.query<{ gid: string }>(selectPrepared)).map(({ gid }) => gid);
  const deadline = performance.now() + MAX_COMMIT_MS;
  for (let waiting = await prepared(); waiting.length > 0; ) {
    if (performance.now() > deadline)
      throw new Error('the worker of the cell has not committed some transactions yet');
    await delay(COMMIT_POLL_MS);
    const still = new Set(await prepared());
    waiting = waiting.filter((gid) => still.has(gid));
  }
}

async function selectTransactions(db: Queryable): Promise<{ horizon: string; next: string }> {
  const [row] = await db.query<{ horizon: string; next: string }>(selectHorizon);
  if (row === undefined) throw new Error('the database returned no transactions');
  return row;
}

/** Returns the end of all feeds. Events that commit later, or have just been committed, come after it. */
export async function feedEnd(db: FeedDatabase): Promise<FeedPosition> {
  return { xact: await feedHorizon(db), eventId: OLDEST };
}

/** Returns a position as a text for clients, which resume with it. */
export function positionText({ xact, eventId: id }: FeedPosition): string {
  return `${xact}.${id}`;
}

/**
 * Returns the position that a client sent: a text of `positionText`, or only an event's id. `certain` is
 * false if events after it may have been deleted or cannot be determined: then it is the nearest position.
 */
export async function findPosition(
  db: FeedDatabase,
  projectId: string,
  text: string,
): Promise<{ position: FeedPosition; certain: boolean }> {
  const [, xact, id = ''] = /^(?:(\d{1,19})\.)?([0-9a-f-]{36})$/i.exec(text) ?? [];
  if (!isId(id)) return { position: await feedEnd(db), certain: false };
  const named = id.toLowerCase();
  const { rowId, number } = splitEventId(named);
  const [row] = await db.query<{ xact: string }>(selectPosition, [projectId, rowId, number]);
  // The transaction of the event counts, if it exists: after a restore from a backup, the client's may be
  // wrong.
  if (row !== undefined) return { position: { xact: row.xact, eventId: named }, certain: true };
  const { horizon, next } = await selectTransactions(db);
  if (xact === undefined || BigInt(xact) > BigInt(next))
    return { position: { xact: horizon, eventId: OLDEST }, certain: false };
  return { position: { xact, eventId: named }, certain: rowId === OLDEST };
}

interface FeedRow extends EventRow {
  request: number;
  place: number;
  xact: string;
  /** The part ends here although there are more rows. */
  cut: boolean;
}

// Index events_feed (project_id, xact, id), up to the oldest running transaction. Returns the rows of
// requested types, and the last row of the part, which is its end.
const selectFeed = sql(
  'read_feed',
  `select r.request::int as request, f.place::int as place, f.xact, f.id, f.type, f.size,
    f.next_before is not null and f.next_before >= $7 as cut,
    case when f.wanted then f.broadcast_id end as broadcast_id,
    case when f.wanted then f.broadcast_ids end as broadcast_ids,
    case when f.wanted then f.user_ids end as user_ids,
    case when f.wanted then f.details end as details
  from unnest($1::uuid[], $2::xid8[], $3::uuid[], $4::int[], $5::text[])
    with ordinality as r (project_id, xact, row_id, number, types, request)
  cross join lateral (
    select *, lead(before) over (order by place) as next_before
    from (
      select *, row_number() over feed as place,
        coalesce(sum(case when wanted then events end) over (
          feed rows between unbounded preceding and 1 preceding
        ), 0) as before
      from (
        select e.*, e.size * ${TYPES_OF_ROW} as events,
          r.types is null or e.type = any (r.types::text[]) as wanted
        from events e
        where e.project_id = r.project_id
          and (e.xact, e.id) >= (r.xact, r.row_id)
          and e.xact < $8::xid8
          and (e.id <> r.row_id or e.size * ${TYPES_OF_ROW} > r.number + 1)
        order by e.xact, e.id
        limit $6
      ) e
      window feed as (order by xact, id)
    ) counted
  ) f
  where f.before < $7 and (f.wanted or f.next_before is null or f.next_before >= $7)
  order by r.request, f.place`,
);
const selectHorizon = sql(
  'feed_end',
  `select pg_snapshot_xmin(s)::text as horizon, pg_snapshot_xmax(s)::text as next
  from pg_current_snapshot() s`,
);
// Runs on the worker, because of the table, which has few rows. Without a view or a table of the catalog,
// which the coordinator would read for itself.
const selectPrepared = sql(
  'select_prepared_transactions',
  `select p.gid
  from (select from migrations limit 1) here
  cross join lateral pg_prepared_xact() as p (transaction, gid, prepared, owner, database)
  join pg_stat_get_activity(pg_backend_pid()) own on own.datid = p.database`,
);
// Primary key (project_id, id).
const selectPosition = sql(
  'find_feed_position',
  `select xact::text
  from events e
  where project_id = $1 and id = $2 and e.size * ${TYPES_OF_ROW} > $3::int`,
);
