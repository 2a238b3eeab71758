import type { DeliveryRecord, DeliveryStatus } from '../../../contract/delivery.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { type Cursor, OLDEST, type SearchedRows } from '../../../lib/cursor.ts';
import { notificationId } from '../../../lib/ids.ts';
import { isAny, type ListPage, readPage } from '../../../lib/page.ts';
import { cursorOf, type ListedDelivery, type Place, readPlace } from './list-cursor.ts';
import { listFailed } from './list-failed.ts';
import { type ChannelPlan, readPlan } from './page-plan.ts';
import { findInState, type LedgerContext, readPlanned } from './read-planned.ts';
import type { DeliveryRow, Planned } from './wire.ts';

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
// Pages of users that have as many, if they are full.
const LONG_PAGES = 6;

/**
 * Returns a page of a broadcast's deliveries: every notification on every planned channel once, in the order
 * of users' ids, subscribers after named recipients. Reads by primary keys; the search for a rare state reads
 * a few thousand more. Throws `validation_failed` for a cursor of another list.
 */
export async function listDeliveries(
  context: LedgerContext,
  broadcastId: string,
  filter: DeliveryFilter,
  cursor: Cursor,
): Promise<ListPage<ListedDelivery>> {
  const list = { db: context.db, broadcastId, filter };
  if (filter.state === 'failed') return readPage(cursor, (at) => failedBeyond(list, at));
  const found = await readPage(
    cursor,
    (at) => findBeyond(list, at),
    (at) => isAnyBeyond(list, at),
  );
  const planned = found.items.map((one) => one.planned);
  const known = filter.state === undefined ? undefined : found.items.map(({ row }) => row);
  const read = await readPlanned(context, planned, known);
  const items = found.items.map(({ id }, index) => ({ id, delivery: read[index] as DeliveryRecord }));
  return { ...found, items };
}

interface List {
  db: Queryable;
  broadcastId: string;
  filter: DeliveryFilter;
}

type PlannedOnPage = Planned & { page: number };

/** A delivery of the list. */
interface FoundDelivery {
  /** Its place, as a cursor. */
  id: string;
  planned: PlannedOnPage;
  /** If it is stored, and was searched by its state. */
  row?: DeliveryRow | undefined;
}

async function failedBeyond(list: List, cursor: Cursor): Promise<SearchedRows<ListedDelivery>> {
  const from = await beginning(list, cursor);
  if (from === 'beyond the end') return { rows: [] };
  const { db, broadcastId, filter } = list;
  return listFailed(db, { broadcastId, channel: filter.channel, from, ...cursor });
}

async function findBeyond(list: List, cursor: Cursor): Promise<SearchedRows<FoundDelivery>> {
  const from = await beginning(list, cursor);
  return from === 'beyond the end' ? { rows: [] } : new Search(list, cursor).from(from);
}

/** Searches only if there are so few that the search would reach the end of the list. */
async function isAnyBeyond(list: List, cursor: Cursor): Promise<boolean> {
  const from = await beginning(list, cursor);
  if (from === 'beyond the end') return false;
  if (list.filter.state !== undefined && (await isLongBeyond(list, cursor, from))) return true;
  return isAny(await new Search(list, cursor).from(from));
}

/** Where the list begins for a cursor: undefined at its end in the other direction. */
async function beginning(
  { db, broadcastId, filter }: List,
  { direction, id }: Cursor,
): Promise<Place | undefined | 'beyond the end'> {
  const from = await readPlace(db, broadcastId, id, {
    withPage: filter.state !== 'failed',
    param: direction === 'older' ? 'starting_after' : 'ending_before',
  });
  if (typeof from !== 'string') return from;
  return (from === 'start') === (direction === 'older') ? undefined : 'beyond the end';
}

/** Reads the pages of a broadcast's users until it has found enough, or searched enough. */
class Search {
  readonly #list: List;
  readonly #cursor: Cursor;
  readonly #rows: FoundDelivery[] = [];
  /** How many users are read next: each has a channel or more, and one is the cursor's own. */
  #users: number;
  /** How many pages of users are read next. */
  #atOnce = PAGES;
  #searched = 0;
  #pages = 0;

  constructor(list: List, cursor: Cursor) {
    this.#list = list;
    this.#cursor = cursor;
    this.#users = cursor.limit + 1;
  }

  async from(place: Place | undefined): Promise<SearchedRows<FoundDelivery>> {
    const { db, filter } = this.#list;
    const { limit } = this.#cursor;
    let at: Partial<Place> = place ?? {};
    for (;;) {
      const atOnce = this.#atOnce;
      const pages = await readPages(this.#list, this.#cursor, at, { users: this.#users, pages: atOnce });
      // Either most are on the wanted channel and in the wanted state, or hardly any: then larger steps.
      if (pages.every(({ userIds }) => userIds.length === 0)) this.#atOnce = Math.min(MAX_PAGES, atOnce * 2);
      else if (filter.state !== undefined) this.#users = Math.min(MAX_SEARCHED, this.#users * 4);
      const candidates: PlannedOnPage[] = [];
      for (const page of pages) {
        candidates.push(...this.#candidatesOn(page, at));
        at = endOf(page, this.#cursor);
        const suffice = filter.state === undefined && this.#rows.length + candidates.length >= limit;
        if (suffice || this.#hasEnded || !page.whole) break; // its rest comes before the next page
      }
      const found: { planned: PlannedOnPage; row?: DeliveryRow | undefined }[] =
        filter.state === undefined
          ? candidates.map((planned) => ({ planned }))
          : await findInState(db, candidates, filter.state);
      const room = limit - this.#rows.length;
      this.#rows.push(...found.slice(0, room).map((one) => ({ id: cursorTo(one.planned), ...one })));
      if (this.#rows.length >= limit) return { rows: this.#rows };
      if (this.#hasEnded) return { rows: this.#rows, stoppedAt: cursorOf(at as Place) };
      if (pages.length < atOnce && pages.every(({ whole }) => whole)) return { rows: this.#rows };
    }
  }

  get #hasEnded(): boolean {
    return this.#searched >= MAX_SEARCHED || this.#pages >= MAX_PAGES;
  }

  /** The deliveries on the wanted channel of the part of a page beyond a place. */
  #candidatesOn(page: Page, at: Partial<Place>): PlannedOnPage[] {
    const { direction } = this.#cursor;
    const candidates = plannedOf(this.#list, page, direction).filter(beyond(page, at, direction));
    this.#searched += candidates.length;
    this.#pages += 1;
    return candidates;
  }
}

/**
 * Whether a search beyond a place ends before it reaches the end of the list, because there are as many
 * deliveries as it reads.
 */
async function isLongBeyond(list: List, cursor: Cursor, place: Partial<Place> = {}): Promise<boolean> {
  const pages = await readPages(list, cursor, place, { users: 0, pages: LONG_PAGES });
  const counts = pages.map((page) => {
    const isBeyond = beyond(page, place, cursor.direction);
    const passed = page.wanted.filter((plan) => !isBeyond({ userId: place.userId, plan }));
    return page.rest * page.wanted.length - passed.length;
  });
  return counts.reduce((sum, count) => sum + count, 0) >= MAX_SEARCHED;
}

/** The place of a delivery, as a cursor. */
function cursorTo({ page, userId, plan }: PlannedOnPage): string {
  return cursorOf({ page, userId, channel: plan.channel });
}

/** A part of a page of users. */
interface Page {
  page: number;
  plans: readonly ChannelPlan[];
  /** Those of the plans that are on the wanted channel. */
  wanted: readonly ChannelPlan[];
  /** Ascending, as in the page; `first` is the place of the first of them in it, from 0. */
  userIds: readonly string[];
  first: number;
  /** How many users the page has from the place on, in the direction of reading. */
  rest: number;
  /** It reaches the end of the page, in the direction of reading. */
  whole: boolean;
}

async function readPages(
  { db, broadcastId, filter: { channel } }: List,
  { direction }: Cursor,
  { page, userId }: Partial<Place>,
  most: { users: number; pages: number },
): Promise<Page[]> {
  const older = direction === 'older';
  const rows = await db.query<{
    page: number;
    plan: string | null;
    size: number;
    first: number;
    user_ids: string;
  }>(older ? selectOnwards : selectBackwards, [
    broadcastId,
    page ?? (older ? 0 : LAST_PAGE),
    userId ?? null,
    most.users,
    most.pages,
    channel === undefined ? null : `"channel":"${channel}"`,
  ]);
  return rows.map(({ page: number, plan, first, size, user_ids: joined }) => {
    const userIds = joined === '' ? [] : joined.split(',');
    const plans = readPlan(plan);
    const wanted = plans.filter((one) => channel === undefined || one.channel === channel);
    const rest = older ? size - first + 1 : first - 1 + userIds.length;
    return { page: number, plans, wanted, userIds, first: first - 1, rest, whole: userIds.length === rest };
  });
}

const LAST_PAGE = 2_147_483_647;

/** The planned deliveries on the wanted channel of a part of a page, in the direction of reading. */
function plannedOf(
  { broadcastId }: List,
  { page, wanted, userIds, first }: Page,
  direction: Cursor['direction'],
): PlannedOnPage[] {
  const planned = userIds.flatMap((userId, index) => {
    const of = { broadcastId, userId, notificationId: notificationId(broadcastId, userId) };
    return wanted.map((plan) => ({ ...of, plan, place: first + index, page }));
  });
  return direction === 'older' ? planned : planned.reverse();
}

/** Returns whether a delivery of a page is beyond a place: only deliveries of the place's user may not be. */
function beyond(
  page: Page,
  at: Partial<Place>,
  direction: Cursor['direction'],
): (planned: { userId: string | undefined; plan: ChannelPlan }) => boolean {
  const own = page.page === at.page ? at.userId : undefined;
  const from = page.plans.findIndex(({ channel }) => channel === at.channel);
  return ({ userId, plan }) => {
    if (own === undefined || userId !== own) return true;
    const index = page.plans.indexOf(plan);
    return direction === 'older' ? index > from : index < from;
  };
}

/** The end of a part of a page: the last channel of its last user. */
function endOf({ page, userIds, plans }: Page, { direction }: Cursor): Place {
  const last = direction === 'older' ? -1 : 0;
  return { page, userId: userIds.at(last) ?? OLDEST, channel: plans.at(last)?.channel ?? 'in_app' };
}

// Primary key (broadcast_id, page): some pages from the cursor's on, with some users of each, from the
// cursor's own on. If the cursor's user is not in its page, the cursor was made up, and nothing is shown.
// A page whose plan does not have the wanted channel is read without its users. They are joined, because the
// driver takes ten times as long for an array.
const ON_CHANNEL = `select broadcast_id, page, plan,
        case
          when $6::text is null or strpos(coalesce(plan::text, '"channel":"in_app"'), $6) > 0 then user_ids
          else '{}'
        end as user_ids
      from broadcast_users`;
const selectOnwards = sql(
  'list_broadcast_users',
  `select page, plan, size, first, array_to_string(user_ids[first : first + $4 - 1], ',') as user_ids
  from (
    select page, plan, user_ids, cardinality(user_ids) as size,
      case
        when page = $2 and $3::uuid is not null
          then coalesce(array_position(user_ids, $3), cardinality(user_ids) + 1)
        else 1
      end as first
    from (
      ${ON_CHANNEL}
    ) on_channel
    where broadcast_id = $1 and page >= $2
    order by page
    limit $5
  ) near
  order by page`,
);
const selectBackwards = sql(
  'list_broadcast_users_backwards',
  `select page, plan, size, greatest(1, last - $4 + 1) as first,
    array_to_string(user_ids[greatest(1, last - $4 + 1) : last], ',') as user_ids
  from (
    select page, plan, user_ids, cardinality(user_ids) as size,
      case
        when page = $2 and $3::uuid is not null then coalesce(array_position(user_ids, $3), 0)
        else cardinality(user_ids)
      end as last
    from (
      ${ON_CHANNEL}
    ) on_channel
    where broadcast_id = $1 and page <= $2
    order by page desc
    limit $5
  ) near
  order by page desc`,
);
