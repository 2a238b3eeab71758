import { inTransaction } from '../in-transaction.ts';
import { copy, type Ends, OLDEST_XACT } from './copy.ts';

/**
 * The places of events in their feed. It is ordered by transactions (domain/ground/events/feed.ts), whose ids
 * mean nothing in another database. So the transactions of the last events get numbers, from `first` on, and
 * all earlier ones come before them.
 */
export interface FeedPlaces {
  /** The oldest of these transactions, by its id in the source. */
  readonly oldest: string;
  /** The number that it has in the target. */
  readonly first: number;
}

// Streams that the move disconnects resume from a younger event than this: they have read all older ones.
const RECENT_SECONDS = 10;
// The next ids of the target's transactions. They must not come before the numbers.
const MARGIN = 100;
// More events may come until the project leaves.
const ROOM = 5_000;

/**
 * Makes sure that there are enough numbers: a new database has had few transactions. Each of these takes an
 * id and writes nothing.
 */
export async function makeRoom(ends: Ends): Promise<void> {
  const { first } = await nextPlaces(ends);
  for (let missing = OLDEST_XACT + ROOM - first; missing > 0; missing -= 1)
    await ends.target.query('select pg_current_xact_id()');
}

/**
 * Gives the last events of the project their places in the target: those that a webhook or a workflow may not
 * have read, and those of the last seconds. Returns undefined if there are not enough numbers.
 */
export async function placeEvents(ends: Ends): Promise<FeedPlaces | undefined> {
  const { target, projectId } = ends;
  const places = await nextPlaces(ends);
  if (places.first <= OLDEST_XACT) return undefined;
  await inTransaction(target, async () => {
    // An earlier call may have given other places.
    await target.query(
      `update events set xact = '${OLDEST_XACT}'::xid8
      where project_id = '${projectId}' and xact > '${OLDEST_XACT}'::xid8`,
    );
    await target.query(
      'create temporary table recent_events (id uuid not null, number bigint not null) on commit drop',
    );
    await copy(
      ends,
      `select id, dense_rank() over (order by xact) - 1 + ${places.first}
      from events
      where project_id = '${projectId}' and xact >= '${places.oldest}'::xid8`,
      'recent_events (id, number)',
    );
    await target.query(`update events e
      set xact = recent.number::text::xid8
      from recent_events recent
      where e.project_id = '${projectId}' and e.id = recent.id`);
  });
  return places;
}

async function nextPlaces({ source, target, projectId }: Ends): Promise<FeedPlaces> {
  const { rows } = await source.query<{ oldest: string; transactions: number }>(selectRecent, [
    projectId,
    RECENT_SECONDS,
  ]);
  const { oldest, transactions } = rows[0] ?? { oldest: '0', transactions: 0 };
  const horizon = await target.query<{ next: string }>(
    'select pg_snapshot_xmin(pg_current_snapshot())::text as next',
  );
  return { oldest, first: Number(horizon.rows[0]?.next ?? 0) - MARGIN - transactions };
}

/**
 * Returns an expression with the row of a webhook or of a workflow's feed as JSON, with its position as a
 * place in the target: behind all events that it has read.
 */
export function placedFeed(row: string, { oldest, first }: FeedPlaces, projectId: string): string {
  // The last of the numbered transactions up to the position.
  const numbered = `(
    select count(distinct xact) as count, max(xact) as last
    from events
    where project_id = '${projectId}' and xact >= '${oldest}'::xid8 and xact <= ${row}.feed_xact
  )`;
  return `(
    select (to_jsonb(${row}) || jsonb_build_object(
      'feed_xact', case
        when count > 0 then ${first} - 1 + count
        when ${row}.feed_xact >= '${oldest}'::xid8 then ${first} - 1
        else ${OLDEST_XACT}
      end::text,
      'feed_id', case
        when count > 0 and last = ${row}.feed_xact or ${row}.feed_xact < '${oldest}'::xid8 then ${row}.feed_id
        else 'ffffffff-ffff-ffff-ffff-ffffffffffff'
      end
    ))::json
    from ${numbered} numbered
  )`;
}

// Index events_feed (project_id, xact, id), and the primary key for the recent ones. The position of a
// disabled webhook may be old: when it is enabled, it reads on by the ids of events.
const selectRecent = `
  with positions as (
    select feed_xact as xact from webhooks
    where project_id = $1 and disabled_at is null and deleted_at is null
    union all
    select feed_xact from workflow_feeds where project_id = $1
    union all
    select min(xact) from events
    where project_id = $1
      and id >= (
        lpad(to_hex(((extract(epoch from clock_timestamp()) - $2) * 1000)::bigint), 12, '0')
        || '00000000000000000000'
      )::uuid
    union all
    select pg_snapshot_xmin(pg_current_snapshot())
  ),
  oldest as (select min(xact) as xact from positions)
  select oldest.xact::text as oldest, count(distinct e.xact)::int as transactions
  from oldest
  left join events e on e.project_id = $1 and e.xact >= oldest.xact
  group by oldest.xact`;
