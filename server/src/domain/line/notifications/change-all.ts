import type { EventType } from '../../../contract/event.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { NEWEST } from '../../../lib/cursor.ts';
import type { Bus, ChangeName } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';
import {
  filterCondition,
  filterValues,
  IN_STATUS,
  type NotificationFilter,
  type NotificationStatus,
  PLACE,
  type StateFilter,
  stateCondition,
} from './row.ts';

/** What a user can do to all notifications at once. */
export type BulkAction = 'read' | 'seen' | 'archive';

// About 50 ms each: a statement that holds no row for long, whatever the user has.
const BATCH = 5_000;

// A client may fetch each notification, so with more it should fetch its list. A client that reconnects can
// still tell which of this many it received (MAX_REMEMBERED of resume-cursor.ts).
const MAX_MESSAGES = 100;

/**
 * Changes every notification of the user that matches the filter, archived ones too, and notifies the user's
 * inboxes. A hundred thousand take several statements, with the same time. Repeating it changes nothing.
 *
 * Inboxes apply a message about all notifications to everything that they show. So a change with a filter
 * sends a message for each changed notification instead, or one that makes inboxes fetch their lists.
 */
export async function changeAllNotifications(
  { db, bus }: { db: Queryable; bus: Bus },
  action: BulkAction,
  { projectId, userId, filter: given, clientId }: BulkRequest,
): Promise<void> {
  const { one, all, state } = ACTIONS[action];
  // Only notifications without this state can be changed.
  if (given[state] === true) return;
  const filter: BulkFilter = { ...given, [state]: undefined };
  const isWhole = Object.values(filter).every((value) => value === undefined);
  const ids: string[] = [];
  let at: Date | null = null;
  let changed = 0;
  for (const [status, statement] of STATEMENTS[action]) {
    if (filter.archived !== undefined && filter.archived !== (status === 'archived')) continue;
    // From the newest place down: notifications that arrive meanwhile are newer, and not changed.
    let below: string | null = NEWEST;
    while (below !== null) {
      const seenEventId = action === 'read' ? [newEventId()] : [];
      const [batch]: BatchRow[] = await db.query<BatchRow>(statement, [
        userId,
        below,
        at,
        ...filterValues(filter),
        filter.read ?? null,
        filter.seen ?? null,
        projectId,
        newEventId(),
        JSON.stringify(payloadOf(filter)),
        !isWhole && changed <= MAX_MESSAGES,
        ...seenEventId,
      ]);
      at ??= batch?.at ?? null;
      changed += batch?.count ?? 0;
      ids.push(...(batch?.ids ?? []));
      below = batch?.below ?? null;
    }
  }
  if (changed === 0 || at === null) return;
  const common = { userId, atMs: at.getTime(), ...(clientId === undefined ? {} : { clientId }) };
  if (isWhole) bus.publish({ type: 'changed', name: all, id: userId, ...common });
  else if (changed > MAX_MESSAGES) bus.publish({ type: 'many_changed', userId });
  else for (const id of ids) bus.publish({ type: 'changed', name: one, id, ...common });
}

export interface BulkRequest {
  projectId: string;
  userId: string;
  filter: BulkFilter;
  clientId?: string | undefined;
}

export type BulkFilter = NotificationFilter & StateFilter;

/** The filter as the event shows it. */
function payloadOf({ categories, topics, ...states }: BulkFilter): Record<string, unknown> {
  const category = categories?.map((name) => name ?? 'uncategorized').join();
  return { category, topic: topics?.join(), ...states };
}

interface BatchRow {
  count: number;
  /** The place below which the next batch continues; null after the last. */
  below: string | null;
  at: Date;
  /** The changed notifications, newest first; null if they were not requested, or are none. */
  ids: string[] | null;
}

interface BulkChange {
  /** The name of a message about one of the notifications. */
  one: ChangeName;
  all: ChangeName;
  /** The state that it sets. */
  state: keyof StateFilter;
  event: EventType;
  set: string;
  due: string;
  /** Whether it marks unseen notifications as seen as well, which has an event of its own. */
  marksSeen?: boolean;
  /** The statuses of the notifications that it may change. */
  statuses: readonly NotificationStatus[];
}

const ACTIONS = {
  read: {
    one: 'read',
    all: 'read/all',
    state: 'read',
    event: 'notification.read',
    set: 'read_at = (select at from time), seen_at = coalesce(n.seen_at, (select at from time))',
    due: 'read_at is null',
    marksSeen: true,
    statuses: ['unread', 'archived'],
  },
  seen: {
    one: 'seen',
    all: 'seen/all',
    state: 'seen',
    event: 'notification.seen',
    set: 'seen_at = (select at from time)',
    due: 'seen_at is null',
    statuses: ['unread', 'archived'], // a read one is seen
  },
  archive: {
    one: 'archived',
    all: 'archive/all',
    state: 'archived',
    event: 'notification.archived',
    set: 'archived_at = (select at from time)',
    due: 'archived_at is null',
    statuses: ['unread', 'read'],
  },
} as const satisfies Record<BulkAction, BulkChange>;

const STATEMENTS = Object.fromEntries(
  Object.entries(ACTIONS).map(([action, how]) => [
    action,
    how.statuses.map((status) => [status, sql(`${action}_all_${status}`, batchText(how, status))]),
  ]),
) as unknown as Record<BulkAction, readonly [NotificationStatus, Statement][]>;

// The partial index of the status, for the places of a batch and then for the update: by primary key, that
// takes a quarter more. The user is locked before any row: otherwise two such updates could deadlock.
function batchText({ event, set, due, marksSeen = false }: BulkChange, status: NotificationStatus): string {
  const chosen = `user_id = $1
      and ${PLACE} < $2
      and ${IN_STATUS[status]}
      and ${due}
      and ${filterCondition(4)}
      and ${stateCondition(7)}`;
  // Those with the time of this statement, and others that were seen in the same millisecond.
  const seen = `union all
      select $13::uuid, 'notification.seen', count(*)::int
      from changed
      where seen_at = (select at from time)`;
  return `with time as materialized (
    select coalesce($3::timestamptz, date_trunc('milliseconds', statement_timestamp())) as at
  ),
  picked as materialized (
    select ${PLACE} as place
    from notifications
    where ${chosen}
    order by ${PLACE} desc
    limit ${BATCH}
  ),
  owner as materialized (
    select id
    from users
    where id = $1 and (select count(*) from picked) > 0
    for no key update
  ),
  changed as (
    update notifications n
    set ${set}, updated_at = (select at from time)
    where ${chosen}
      and ${PLACE} >= (select place from picked order by place limit 1)
      and (select count(*) from owner) >= 0
    returning n.id, ${PLACE} as place, n.seen_at
  ),
  counted as (
    select (select count(*)::int from changed) as count, (select count(*)::int from picked) as picked
  ),
  event as (
    insert into events (project_id, id, type, user_ids, details)
    select $9, e.id, e.type, array[$1::uuid],
      json_build_object('payload', $11::jsonb || jsonb_build_object('count', e.count))
    from (
      select $10::uuid, '${event}', count from counted
      ${marksSeen ? seen : ''}
    ) e (id, type, count)
    where e.count > 0
  )
  select count, (select at from time) as at,
    case when picked = ${BATCH} then (select place from picked order by place limit 1) end as below,
    case when $12::boolean then (select array_agg(id order by place desc) from changed) end as ids
  from counted`;
}
