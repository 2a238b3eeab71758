import type { DeliveryRecord } from '../../../contract/delivery.ts';
import { uuidArray } from '../../../db/arrays.ts';
import { sql } from '../../../db/client.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { notificationId } from '../../../lib/ids.ts';
import type { ListPage } from '../../../lib/page.ts';
import { cursorOf, type ListedDelivery } from './list-cursor.ts';
import { readPlan } from './page-plan.ts';
import { type LedgerContext, readPlanned } from './read-planned.ts';
import type { Planned } from './wire.ts';

// Pages of users that are read for each broadcast. A page holds up to a thousand users, and the first one
// fills a page of the list, unless it has few users or none on the wanted channel.
const PAGES = 4;

/**
 * Returns the first deliveries of each broadcast, in the order of `listDeliveries`, at most `limit` of each:
 * with a constant number of statements.
 */
export async function listFirstDeliveries(
  context: LedgerContext,
  broadcastIds: readonly string[],
  { channel, limit }: { channel: string | undefined; limit: number },
): Promise<Map<string, ListPage<ListedDelivery>>> {
  const rows = await context.db.query<PageRow>(selectFirst, [uuidArray(broadcastIds), limit + 1, PAGES]);
  const pages = Map.groupBy(rows, (row) => row.broadcast_id);
  const planned = new Map(
    broadcastIds.map((id) => {
      const inOrder = (pages.get(id) ?? []).toSorted((a, b) => a.page - b.page);
      return [id, firstPlanned(inOrder, { channel, limit })] as const;
    }),
  );
  const listed = [...planned.values()].flatMap(({ wanted }) => wanted);
  const read = await readPlanned(context, listed);
  const items = listed.map((one, index) => ({ id: placeOf(one), delivery: read[index] as DeliveryRecord }));
  const byBroadcast = Map.groupBy(items, ({ delivery }) => delivery.broadcast_id);
  return new Map(
    [...planned].map(([id, { end }]) => [
      id,
      { items: byBroadcast.get(id) ?? [], older: end, newer: undefined },
    ]),
  );
}

interface PageRow {
  broadcast_id: string;
  page: number;
  plan: string | null;
  user_ids: string[];
}

type PlannedOnPage = Planned & { page: number };

/** The first planned deliveries of a broadcast, and the cursor at which the list continues, if it does. */
function firstPlanned(
  pages: readonly PageRow[],
  { channel, limit }: { channel: string | undefined; limit: number },
): { wanted: PlannedOnPage[]; end: string | undefined } {
  const wanted: PlannedOnPage[] = [];
  for (const { broadcast_id: broadcastId, page, plan: json, user_ids: userIds } of pages) {
    const plans = readPlan(json).filter((plan) => channel === undefined || plan.channel === channel);
    for (const [place, userId] of userIds.entries()) {
      for (const plan of plans) {
        const last = wanted.at(-1);
        if (wanted.length === limit) return { wanted, end: last && placeOf(last) };
        wanted.push({
          broadcastId,
          userId,
          notificationId: notificationId(broadcastId, userId),
          plan,
          place,
          page,
        });
      }
    }
  }
  return { wanted, end: pages.length < PAGES ? undefined : endOf(pages.at(-1)) };
}

function placeOf({ page, userId, plan }: PlannedOnPage): string {
  return cursorOf({ page, userId, channel: plan.channel });
}

/** The cursor after a page of users, of which the rest, if any, is not on the wanted channel. */
function endOf(last: PageRow | undefined): string | undefined {
  if (last === undefined) return undefined;
  const { page, plan, user_ids: userIds } = last;
  return cursorOf({
    page,
    userId: userIds.at(-1) ?? OLDEST,
    channel: readPlan(plan).at(-1)?.channel ?? 'in_app',
  });
}

// Primary key (broadcast_id, page).
const selectFirst = sql(
  'list_first_broadcast_users',
  `select first.broadcast_id, first.page, first.plan, first.user_ids
  from unnest($1::uuid[]) as wanted (id)
  cross join lateral (
    select broadcast_id, page, plan, user_ids[1 : $2] as user_ids
    from broadcast_users
    where broadcast_id = wanted.id
    order by page
    limit $3
  ) first`,
);
