import type { DeliveryStatus } from '../../../contract/delivery.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { type Cursor, OLDEST, type SearchedRows } from '../../../lib/cursor.ts';
import { notificationId } from '../../../lib/ids.ts';
import { cursorOf, type ListedDelivery, type Place, readPlace } from './list-cursor.ts';
import { listFailed } from './list-failed.ts';
import { type ChannelPlan, readPlan } from './page-plan.ts';
import { readPlanned } from './read-planned.ts';
import type { Planned } from './wire.ts';

/** A filter of a broadcast's deliveries. */
export interface DeliveryFilter {
  state?: DeliveryStatus;
  channel?: string;
}

// A search for a rare state ends the page after about this many deliveries.
const MAX_SEARCHED = 5_000;
// Pages of users that are read by the first statement, and for one page of the list.
const PAGES = 4;
const MAX_PAGES = 60;

/**
 * Returns up to `limit` of a broadcast's deliveries beyond the cursor, nearest first: every notification on
 * every planned channel once, in the order of users' ids, subscribers after named recipients. Reads by
 * primary keys; the search for a rare state reads a few thousand more. Throws `validation_failed` for a
 * cursor of another list.
 */
export async function listDeliveries(
  deps: { db: Queryable; brand: string },
  broadcastId: string,
  filter: DeliveryFilter,
  { direction, id, limit }: Cursor,
): Promise<SearchedRows<ListedDelivery>> {
  const from = await readPlace(deps.db, broadcastId, id, {
    withPage: filter.state !== 'failed',
    param: direction === 'older' ? 'starting_after' : 'ending_before',
  });
  if (from === 'start' && direction === 'newer') return { rows: [] };
  if (from === 'end' && direction === 'older') return { rows: [] };
  const place = typeof from === 'string' ? undefined : from;
  if (filter.state === 'failed')
    return listFailed(deps.db, { broadcastId, channel: filter.channel, from: place, direction, limit });
  return new Search(deps, { broadcastId, filter, direction, limit }).from(place);
}

interface Wanted {
  broadcastId: string;
  filter: DeliveryFilter;
  direction: Cursor['direction'];
  limit: number;
}

/** Reads the pages of a broadcast's users until it has found enough, or searched enough. */
class Search {
  readonly #deps: { db: Queryable; brand: string };
  readonly #wanted: Wanted;
  readonly #rows: ListedDelivery[] = [];
  /** How many users are read next: each has a channel or more, and one is the cursor's own. */
  #users: number;
  /** How many pages of users are read next. */
  #atOnce = PAGES;
  #searched = 0;
  #pages = 0;

  constructor(deps: { db: Queryable; brand: string }, wanted: Wanted) {
    this.#deps = deps;
    this.#wanted = wanted;
    this.#users = wanted.limit + 1;
  }

  async from(place: Place | undefined): Promise<SearchedRows<ListedDelivery>> {
    let at: Partial<Place> = place ?? {};
    for (;;) {
      const { db } = this.#deps;
      const atOnce = this.#atOnce;
      const pages = await readPages(db, this.#wanted, at, { users: this.#users, pages: atOnce });
      // Either most are on the wanted channel and in the wanted state, or hardly any: then larger steps.
      if (pages.every(({ userIds }) => userIds.length === 0)) this.#atOnce = Math.min(MAX_PAGES, atOnce * 2);
      else if (this.#wanted.filter.state !== undefined) this.#users = Math.min(MAX_SEARCHED, this.#users * 4);
      for (const page of pages) {
        at = await this.#search(page, at);
        if (this.#rows.length >= this.#wanted.limit) return { rows: this.#rows };
        if (this.#searched >= MAX_SEARCHED || this.#pages >= MAX_PAGES)
          return { rows: this.#rows, stoppedAt: cursorOf(at as Place) };
        if (!page.whole) break; // its rest comes before the next page
      }
      if (pages.length < atOnce && pages.every(({ whole }) => whole)) return { rows: this.#rows };
    }
  }

  /** Searches the part of a page beyond a place. Returns the place that it reached. */
  async #search(page: Page, at: Partial<Place>): Promise<Place> {
    const { broadcastId, filter, direction, limit } = this.#wanted;
    const planned = plannedOf(broadcastId, page, direction).filter(beyond(page, at, direction));
    const last = planned.at(-1);
    const wanted = planned.filter(
      ({ plan }) => filter.channel === undefined || plan.channel === filter.channel,
    );
    const room = limit - this.#rows.length;
    const some = filter.state === undefined ? wanted.slice(0, room) : wanted;
    const found = await readPlanned(this.#deps.db, some, {
      state: filter.state,
      limit: room,
      brand: this.#deps.brand,
    });
    for (const { planned: one, delivery } of found)
      this.#rows.push({ id: cursorOf(placeOf(page, one)), delivery });
    this.#searched += some.length;
    this.#pages += 1;
    return last === undefined ? { page: page.page, ...pageEnd(page, direction) } : placeOf(page, last);
  }
}

/** A part of a page of users. */
interface Page {
  page: number;
  plans: readonly ChannelPlan[];
  /** Ascending, as in the page; `first` is the place of the first of them in it, from 0. */
  userIds: readonly string[];
  first: number;
  /** It reaches the end of the page, in the direction of reading. */
  whole: boolean;
}

async function readPages(
  db: Queryable,
  { broadcastId, filter, direction }: Wanted,
  { page, userId }: Partial<Place>,
  most: { users: number; pages: number },
): Promise<Page[]> {
  const rows = await db.query<{
    page: number;
    plan: string | null;
    size: number;
    first: number;
    user_ids: string[];
  }>(direction === 'older' ? selectOnwards : selectBackwards, [
    broadcastId,
    page ?? (direction === 'older' ? 0 : LAST_PAGE),
    userId ?? null,
    most.users,
    most.pages,
  ]);
  return rows.map((row) => {
    const { page: number, first, size, user_ids: userIds } = row;
    const plans = readPlan(row.plan);
    if (!plans.some((plan) => filter.channel === undefined || plan.channel === filter.channel))
      return { page: number, plans, userIds: [], first: 0, whole: true }; // nothing in all of it
    const whole = direction === 'older' ? first - 1 + userIds.length >= size : first <= 1;
    return { page: number, plans, userIds, first: first - 1, whole };
  });
}

const LAST_PAGE = 2_147_483_647;

/** The planned deliveries of a part of a page, in the direction of reading. */
function plannedOf(broadcastId: string, page: Page, direction: Cursor['direction']): Planned[] {
  const planned = page.userIds.flatMap((userId, index) =>
    page.plans.map((plan) => ({
      broadcastId,
      userId,
      notificationId: notificationId(broadcastId, userId),
      plan,
      place: page.first + index,
    })),
  );
  return direction === 'older' ? planned : planned.reverse();
}

/** Returns whether a delivery of a page is beyond a place: only deliveries of the place's user may not be. */
function beyond(
  page: Page,
  at: Partial<Place>,
  direction: Cursor['direction'],
): (planned: Planned) => boolean {
  const own = page.page === at.page ? at.userId : undefined;
  const from = page.plans.findIndex(({ channel }) => channel === at.channel);
  return ({ userId, plan }) => {
    if (userId !== own) return true;
    const index = page.plans.indexOf(plan);
    return direction === 'older' ? index > from : index < from;
  };
}

function placeOf({ page }: Page, { userId, plan }: Planned): Place {
  return { page, userId, channel: plan.channel };
}

/** The end of a part of a page: its last user. */
function pageEnd({ userIds, plans }: Page, direction: Cursor['direction']): Omit<Place, 'page'> {
  const older = direction === 'older';
  return {
    userId: userIds.at(older ? -1 : 0) ?? OLDEST,
    channel: plans.at(older ? -1 : 0)?.channel ?? 'in_app',
  };
}

// Primary key (broadcast_id, page): some pages from the cursor's on, with some users of each, from the
// cursor's own on. If the cursor's user is not in its page, the cursor was made up, and nothing is shown.
const selectOnwards = sql(
  'list_broadcast_users',
  `select page, plan, size, first, user_ids[first : first + $4 - 1] as user_ids
  from (
    select page, plan, user_ids, cardinality(user_ids) as size,
      case
        when page = $2 and $3::uuid is not null
          then coalesce(array_position(user_ids, $3), cardinality(user_ids) + 1)
        else 1
      end as first
    from broadcast_users
    where broadcast_id = $1 and page >= $2
    order by page
    limit $5
  ) near
  order by page`,
);
const selectBackwards = sql(
  'list_broadcast_users_backwards',
  `select page, plan, size, greatest(1, last - $4 + 1) as first,
    user_ids[greatest(1, last - $4 + 1) : last] as user_ids
  from (
    select page, plan, user_ids, cardinality(user_ids) as size,
      case
        when page = $2 and $3::uuid is not null then coalesce(array_position(user_ids, $3), 0)
        else cardinality(user_ids)
      end as last
    from broadcast_users
    where broadcast_id = $1 and page <= $2
    order by page desc
    limit $5
  ) near
  order by page desc`,
);
