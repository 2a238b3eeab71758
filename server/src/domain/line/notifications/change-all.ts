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
      ]);
      at ??= batch?.at ?? null;
      changed += batch?.count ?? 0;
      ids.push(...(batch?.ids ?? []));
      below = batch?.last ?? null;
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
  last: string | null;
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
  /** The statuses of the notifications that it may change. */
  statuses: readonly NotificationStatus[];
}

const ACTIONS = {
  read: {
    one: 'read',
    all: 'read/all',
    state: 'read',
    event: 'notification.read',
    set: 'read_at = picked.at, seen_at = coalesce(n.seen_at, picked.at)',
    due: 'read_at is null',
    statuses: ['unread', 'archived'],
  },
  seen: {
    one: 'seen',
    all: 'seen/all',
    state: 'seen',
    event: 'notification.seen',
    set: 'seen_at = picked.at',
    due: 'seen_at is null',
    statuses: ['unread', 'archived'], // a read one is seen
  },
  archive: {
    one: 'archived',
    all: 'archive/all',
    state: 'archived',
    event: 'notification.archived',
    set: 'archived_at = picked.at',
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

// The partial index of the status. Rows are locked in the order of the inbox, newest first, so that two
// concurrent changes of all wait for each other in one order. Then the primary key, by the user_id of each
// picked row: with `user_id = $1`, and statistics of users with few rows, the planner would compare each of
// the user's rows with each picked one.
function batchText({ event, set, due }: BulkChange, status: NotificationStatus): string {
  return `with picked as (
    select user_id, id, ${PLACE} as place,
      coalesce($3::timestamptz, date_trunc('milliseconds', statement_timestamp())) as at
    from notifications
    where user_id = $1
      and ${PLACE} < $2
      and ${IN_STATUS[status]}
      and ${due}
      and ${filterCondition(4)}
      and ${stateCondition(7)}
    order by ${PLACE} desc
    limit ${BATCH}
    for update
  ),
  changed as (
    update notifications n
    set ${set}, updated_at = picked.at
    from picked
    where n.user_id = picked.user_id and n.id = picked.id
    returning n.id
  ),
  total as (select count(*)::int as count from changed),
  event as (
    insert into events (project_id, id, type, user_ids, details)
    select $9, $10, '${event}', array[$1::uuid],
      json_build_object('payload', $11::jsonb || jsonb_build_object('count', count))
    from total
    where count > 0
  )
  select count,
    coalesce((select at from picked limit 1), statement_timestamp()) as at,
    case when count = ${BATCH} then (select place from picked order by place limit 1) end as last,
    case when $12::boolean then (select array_agg(id order by place desc) from picked) end as ids
  from total`;
}
