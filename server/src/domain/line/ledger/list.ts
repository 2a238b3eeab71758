import type { DeliveryStatus } from '../../../contract/delivery.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { type Cursor, OLDEST, type Stretch } from '../../../lib/cursor.ts';
import { notificationId } from '../../../lib/ids.ts';
import { cursorOf, type ListedDelivery, type Place, readPlace } from './list-cursor.ts';
import { listFailed } from './list-failed.ts';
import { type ChannelPlan, readPlan } from './page-plan.ts';
import { readPlanned } from './read-planned.ts';
import type { Planned } from './wire.ts';

/** Which of a broadcast's deliveries a list is about. */
export interface DeliveryFilter {
  state?: DeliveryStatus;
  channel?: string;
}

// A search for a state that is rare looks at about so many, and ends the page there.
const LOOKED_AT = 5_000;
// Pages of users that are read together, and in all.
const PAGES = 4;
const MAX_PAGES = 60;

/**
 * Up to `limit` of a broadcast's deliveries beyond the cursor, nearest first: every notification on every
 * channel that was planned, each once, in the order of users' ids, those of a topic after who is named. Reads
 * what it answers by primary keys and, of a state that is rare, looks at a few thousand more. Throws
 * `validation_failed` for a cursor that is none of this list.
 */
export async function listDeliveries(
  deps: { db: Queryable; brand: string },
  broadcastId: string,
  filter: DeliveryFilter,
  { direction, id, limit }: Cursor,
): Promise<Stretch<ListedDelivery>> {
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

/** Goes through the pages of a broadcast's users until enough was found, or enough was looked at. */
class Search {
  readonly #deps: { db: Queryable; brand: string };
  readonly #wanted: Wanted;
  readonly #rows: ListedDelivery[] = [];
  /** So many users are read next: each has a channel or more, and one is the cursor's own. */
  #users: number;
  #lookedAt = 0;
  #pages = 0;

  constructor(deps: { db: Queryable; brand: string }, wanted: Wanted) {
    this.#deps = deps;
    this.#wanted = wanted;
    this.#users = wanted.limit + 1;
  }

  async from(place: Place | undefined): Promise<Stretch<ListedDelivery>> {
    let at: Partial<Place> = place ?? {};
    for (;;) {
      const { db } = this.#deps;
      const pages = await readPages(db, this.#wanted, at, this.#users);
      // Most are in the state that is asked for, or hardly any: then larger steps.
      if (this.#wanted.filter.state !== undefined) this.#users = Math.min(LOOKED_AT, this.#users * 4);
      for (const page of pages) {
        at = await this.#look(page, at);
        if (this.#rows.length >= this.#wanted.limit) return { rows: this.#rows };
        if (this.#lookedAt >= LOOKED_AT || this.#pages >= MAX_PAGES)
          return { rows: this.#rows, stoppedAt: cursorOf(at as Place) };
        if (!page.whole) break; // the rest of it comes before the next
      }
      if (pages.length < PAGES && pages.every(({ whole }) => whole)) return { rows: this.#rows };
    }
  }

  /** Looks at what a page has beyond a place; answers the place that was come to. */
  async #look(page: Page, at: Partial<Place>): Promise<Place> {
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
    this.#lookedAt += some.length;
    this.#pages += 1;
    return last === undefined ? { page: page.page, ...pageEnd(page, direction) } : placeOf(page, last);
  }
}

/** A part of a page of users: those that are asked for next. */
interface Page {
  page: number;
  plans: readonly ChannelPlan[];
  /** Ascending, as in the page; the first of them stands at this place of it, from 0 on. */
  userIds: readonly string[];
  first: number;
  /** It goes to the end of the page, in the direction of reading. */
  whole: boolean;
}

async function readPages(
  db: Queryable,
  { broadcastId, filter, direction }: Wanted,
  { page, userId }: Partial<Place>,
  users: number,
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
    users,
    PAGES,
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

/** All that a part of a page has planned, in the direction of reading. */
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

/**
 * Whether something of a page stands beyond a place: that can only be in question for the user of the place.
 */
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

/** Where a part of a page ends that has nothing more: at its last user. */
function pageEnd({ userIds, plans }: Page, direction: Cursor['direction']): Omit<Place, 'page'> {
  const older = direction === 'older';
  return {
    userId: userIds.at(older ? -1 : 0) ?? OLDEST,
    channel: plans.at(older ? -1 : 0)?.channel ?? 'in_app',
  };
}

// Primary key (broadcast_id, page): so many pages from that of the cursor on, and of each so many users from
// the cursor's own on. Where the cursor's user is not in its page, it was made up: nothing of the page is
// shown.
const selectOnwards = sql(
  'list_broadcast_users',
  `select page, plan, size, first, user_ids[first : first + $4 - 1] as user_ids
  from (
    select page, plan, user_ids, cardinality(user_ids) as size,
      case when page = $2 and $3::uuid is not null then coalesce(array_position(user_ids, $3), cardinality(user_ids) + 1) else 1 end as first
    from broadcast_users
    where broadcast_id = $1 and page >= $2
    order by page
    limit $5
  ) near
  order by page`,
);
const selectBackwards = sql(
  'list_broadcast_users_backwards',
  `select page, plan, size, greatest(1, last - $4 + 1) as first, user_ids[greatest(1, last - $4 + 1) : last] as user_ids
  from (
    select page, plan, user_ids, cardinality(user_ids) as size,
      case when page = $2 and $3::uuid is not null then coalesce(array_position(user_ids, $3), 0) else cardinality(user_ids) end as last
    from broadcast_users
    where broadcast_id = $1 and page <= $2
    order by page desc
    limit $5
  ) near
  order by page desc`,
);
