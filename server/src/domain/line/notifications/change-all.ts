import type { EventType } from '../../../contract/event.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { NEWEST } from '../../../lib/cursor.ts';
import type { Bus, ChangeName } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';
import { filterCondition, filterValues, type NotificationFilter, PLACE, STANDING } from './row.ts';

/** What a user can do to all notifications at once. */
export type BulkAction = 'read' | 'seen' | 'archive';

// About 50 ms each: a statement that holds no row for long, whatever the user has.
const BATCH = 5_000;

/**
 * Does it to every notification of the user that the filter means, archived ones too, and tells the user's
 * inboxes once. A hundred thousand take a number of statements; all carry the same time. Doing it again
 * changes nothing and tells nobody.
 */
export async function changeAllNotifications(
  { db, bus }: { db: Queryable; bus: Bus },
  action: BulkAction,
  { projectId, userId, filter, clientId }: BulkRequest,
): Promise<void> {
  const payload = { ...filter, ...(filter.category === null ? { category: 'uncategorized' } : {}) };
  let at: Date | null = null;
  let changed = 0;
  for (const statement of STATEMENTS[action]) {
    // From the newest place down: what arrives meanwhile is newer, and was not meant.
    let below: string | null = NEWEST;
    while (below !== null) {
      const [batch]: BatchRow[] = await db.query<BatchRow>(statement, [
        userId,
        below,
        at,
        ...filterValues(filter),
        projectId,
        newEventId(),
        JSON.stringify(payload),
      ]);
      at ??= batch?.at ?? null;
      changed += batch?.count ?? 0;
      below = batch?.last ?? null;
    }
  }
  if (changed === 0 || at === null) return;
  bus.publish({
    type: 'changed',
    userId,
    name: ACTIONS[action].name,
    id: userId,
    atMs: at.getTime(),
    ...(clientId === undefined ? {} : { clientId }),
  });
}

export interface BulkRequest {
  projectId: string;
  userId: string;
  filter: NotificationFilter;
  clientId?: string | undefined;
}

interface BatchRow {
  count: number;
  /** The place below which the next batch goes on; null after the last. */
  last: string | null;
  at: Date;
}

interface Action {
  name: ChangeName;
  event: EventType;
  set: string;
  due: string;
  /** Where those can stand that it changes. */
  standing: readonly (keyof typeof STANDING)[];
}

const ACTIONS = {
  read: {
    name: 'read/all',
    event: 'notification.read',
    set: 'read_at = picked.at, seen_at = coalesce(n.seen_at, picked.at)',
    due: 'read_at is null',
    standing: ['unread', 'archived'],
  },
  seen: {
    name: 'seen/all',
    event: 'notification.seen',
    set: 'seen_at = picked.at',
    due: 'seen_at is null',
    standing: ['unread', 'archived'], // what is read is seen
  },
  archive: {
    name: 'archive/all',
    event: 'notification.archived',
    set: 'archived_at = picked.at',
    due: 'archived_at is null',
    standing: ['unread', 'read'],
  },
} as const satisfies Record<BulkAction, Action>;

const STATEMENTS = Object.fromEntries(
  Object.entries(ACTIONS).map(([action, how]) => [
    action,
    how.standing.map((standing) => sql(`${action}_all_${standing}`, batchText(how, standing))),
  ]),
) as unknown as Record<BulkAction, readonly Statement[]>;

// The partial index of the standing; locked in the order of the inbox, newest first, so that two that mark
// all at once wait for each other in the same order. Then the primary key, by the user_id of each that was
// picked: with `user_id = $1`, where statistics say that nobody has many, each of the user's rows would be
// compared with each that was picked.
function batchText({ event, set, due }: Action, standing: keyof typeof STANDING): string {
  return `with picked as (
    select user_id, id, ${PLACE} as place,
      coalesce($3::timestamptz, date_trunc('milliseconds', statement_timestamp())) as at
    from notifications
    where user_id = $1
      and ${PLACE} < $2
      and ${STANDING[standing]}
      and ${due}
      and ${filterCondition(4)}
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
    select $7, $8, '${event}', array[$1::uuid],
      json_build_object('payload', $9::jsonb || jsonb_build_object('count', count))
    from total
    where count > 0
  )
  select count,
    coalesce((select at from picked limit 1), statement_timestamp()) as at,
    case when count = ${BATCH} then (select place from picked order by place limit 1) end as last
  from total`;
}
