import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import { MAX_UNREAD_COUNT } from '../notifications/count-unread.ts';
import { IN_STATUS } from '../notifications/row.ts';

/** The counts that the number on an app's icon can show. */
export interface Badge {
  unread: number;
  unseen: number;
}

/** The counts of a user that were not asked for. */
export const NO_BADGE: Badge = { unread: 0, unseen: 0 };

/**
 * Counts for all these users at once. Whether a notification was seen is only in its row, not in the index,
 * so unseen ones are counted only if an integration shows them; otherwise they equal the unread ones.
 */
export async function countBadges(
  db: Queryable,
  integrations: readonly OpenedIntegration[],
  userIds: ReadonlySet<string>,
): Promise<ReadonlyMap<string, Badge>> {
  if (userIds.size === 0) return new Map();
  const unseen = integrations.some(({ config }) => config.badge === 'unseen');
  const rows = await db.query<Badge & { user_id: string }>(unseen ? countBoth : countUnread, [
    uuidArray([...userIds]),
  ]);
  return new Map(rows.map(({ user_id, ...badge }) => [user_id, badge]));
}

const count = (columns: string, figures: string) => `select w.user_id, ${figures}
  from unnest($1::uuid[]) as w (user_id)
  cross join lateral (
    select ${columns}
    from notifications
    where user_id = w.user_id and ${IN_STATUS.unread}
    limit ${MAX_UNREAD_COUNT}
  ) n
  group by w.user_id`;
// Index-only scan of inbox_unread; the second statement reads the rows as well.
const countUnread = sql('count_badges', count('', 'count(*)::int as unread, count(*)::int as unseen'));
const countBoth = sql(
  'count_badges_unseen',
  count('seen_at', 'count(*)::int as unread, (count(*) filter (where n.seen_at is null))::int as unseen'),
);
