import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { findFewNotifications } from './few.ts';
import {
  COLUMN_NAMES,
  COLUMNS,
  filterCondition,
  filterValues,
  IN_STATUS,
  isFiltered,
  type NotificationFilter,
  type NotificationRow,
  PLACE,
  SEEN_UNREAD,
  type StateFilter,
  stateCondition,
} from './row.ts';

/** A page of an inbox, and the exact counts of the notifications on all its pages. */
export interface NumberedPage {
  rows: NotificationRow[];
  total: number;
  unread: number;
  unseen: number;
}

/** The notifications to list: if `archived` is undefined, those that are not archived. */
export type NumberedFilter = NotificationFilter &
  Omit<StateFilter, 'archived'> & { archived?: boolean | 'any' | undefined; snoozed?: boolean };

/**
 * Reads a page of a user's inbox by its number, newest arrival first. A page beyond the end is empty.
 *
 * With no filter but `read` and `seen`, the counts come from indexes alone. Other filters count by reading
 * rows, four times as slowly. The rows of all pages before this one are read, too.
 */
export async function listNumberedPage(
  db: Queryable,
  user: { projectId: string; id: string },
  { archived = false, snoozed = false, ...filter }: NumberedFilter,
  { page, perPage }: { page: number; perPage: number },
): Promise<NumberedPage> {
  const { read, seen } = filter;
  if (read === true && seen === false) return { rows: [], total: 0, unread: 0, unseen: 0 };
  const range = [user.id, perPage, (page - 1) * perPage];
  if (archived === false && !snoozed && !isFiltered(filter))
    return toPage(await db.query<Row>(WHOLE[wholeList(read, seen)], range));
  const among = await findFewNotifications(db, { projectId: user.projectId, userId: user.id }, filter);
  const values = [...range, ...filterValues(filter), read ?? null, seen ?? null];
  const { walk, lookUp } = snoozed ? SNOOZED : archived === 'any' ? ANY : archived ? ARCHIVED : LIVE;
  return toPage(
    among === undefined
      ? await db.query<Row>(walk, values)
      : await db.query<Row>(lookUp, [...values, uuidArray(among)]),
  );
}

/** The first row has the counts, also if the page is empty. */
type Row = Omit<NumberedPage, 'rows'> & (NotificationRow | { id: null });

function toPage(rows: readonly Row[]): NumberedPage {
  const [first] = rows;
  if (first === undefined) throw new Error('the counts of an inbox have no row');
  const { total, unread, unseen } = first;
  return { rows: rows.filter((row) => row.id !== null), total, unread, unseen };
}

/** The parts of what is not archived; the first two are unread. */
const PARTS = {
  unseen: `seen_at is null and ${IN_STATUS.unread}`,
  seen: SEEN_UNREAD,
  read: IN_STATUS.read,
};
type Part = keyof typeof PARTS;

const WHOLE = {
  all: whole('unseen', 'seen', 'read'),
  read: whole('read'),
  unread: whole('unseen', 'seen'),
  seen: whole('seen', 'read'),
  unseen: whole('unseen'),
  seen_unread: whole('seen'),
};

function wholeList(read: boolean | undefined, seen: boolean | undefined): keyof typeof WHOLE {
  if (read === true) return 'read';
  if (seen === false) return 'unseen';
  if (read === undefined) return seen === undefined ? 'all' : 'seen';
  return seen === undefined ? 'unread' : 'seen_unread';
}

// The counts are index-only scans of inbox_unread, inbox_seen and inbox_read, each done once because it is
// materialized. An index of the unseen ones alone would slow down every insert.
function whole(...parts: Part[]): Statement {
  const has = (part: Part) => parts.includes(part);
  const count = (isNeeded: boolean, condition: string) =>
    isNeeded ? `(select count(*)::int from notifications where user_id = $1 and ${condition})` : '0';
  const counts = `with indexed as materialized (
      select ${count(has('unseen'), IN_STATUS.unread)} as unread,
        ${count(has('unseen') || has('seen'), SEEN_UNREAD)} as seen_unread,
        ${count(has('read'), IN_STATUS.read)} as read
    )
    select unseen + seen + read as total, unseen + seen as unread, unseen
    from indexed
    cross join lateral (
      select ${has('unseen') ? 'unread - seen_unread' : '0'} as unseen,
        ${has('seen') ? 'seen_unread' : '0'} as seen
    ) parts`;
  const conditions = parts.map((part) => PARTS[part]);
  const lists = has('unseen') && has('seen') ? [IN_STATUS.unread, ...conditions.slice(2)] : conditions;
  return sql(`list_numbered_${parts.join('_')}`, pageText(counts, lists));
}

const LIVE = filtered('live', [IN_STATUS.unread, IN_STATUS.read]);
const ARCHIVED = filtered('archived', [IN_STATUS.archived]);
const SNOOZED = filtered('snoozed', [IN_STATUS.snoozed]);
const ANY = filtered('any', [IN_STATUS.unread, IN_STATUS.read, IN_STATUS.archived]);

// The partial index of each status; or the primary key, by the ids.
function filtered(name: string, statuses: readonly string[]): { walk: Statement; lookUp: Statement } {
  const text = (condition: string) => {
    const lists = statuses.map((status) => `${status}\n      and ${condition}`);
    const rows = lists.map(
      (list) => `select seen_at, read_at from notifications where user_id = $1 and ${list}`,
    );
    const counts = `select count(*)::int as total, (count(*) filter (where read_at is null))::int as unread,
      (count(*) filter (where seen_at is null))::int as unseen
    from (
      ${rows.join('\n      union all ')}
    ) n`;
    return pageText(counts, lists);
  };
  const condition = `${filterCondition(4)}\n      and ${stateCondition(7)}`;
  return {
    walk: sql(`list_numbered_filtered_${name}`, text(condition)),
    lookUp: sql(`list_numbered_few_${name}`, text(`id = any ($9::uuid[])\n      and ${condition}`)),
  };
}

// The lists are merged; each stops at the end of the page.
function pageText(counts: string, lists: readonly string[]): string {
  const texts = lists.map(
    (condition) => `(
      select ${COLUMNS}, ${PLACE} as place
      from notifications
      where user_id = $1 and ${condition}
      order by ${PLACE} desc
      limit $2::bigint + $3::bigint
    )`,
  );
  return `with counts as materialized (
    ${counts}
  ),
  page as (
    select *
    from (
    ${texts.join('\n    union all\n    ')}
    ) shown
    order by place desc
    limit $2::bigint
    offset $3::bigint
  )
  select total, unread, unseen, ${COLUMN_NAMES}
  from counts
  left join page on true
  order by place desc`;
}
