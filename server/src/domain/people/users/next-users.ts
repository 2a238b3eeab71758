import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { USERS_PER_EVENT_ROW } from '../../ground/events/record.ts';

/** The users of a page of a broadcast to a group: as many as a row of its events may have. */
export const USERS_PER_PAGE = USERS_PER_EVENT_ROW;

/** A page of a group of users. */
export interface UserPage {
  userIds: string[];
  /** The user before the next page; undefined if this is the last one. */
  next: string | undefined;
}

/**
 * Returns a page of all users of a project for each request, in one statement: those behind the user `after`.
 * Leaves out deleted users, and the users of the broadcast's first page, which are its named recipients.
 */
export function nextUsers(
  db: Queryable,
  requests: readonly { broadcastId: string; projectId: string; after: string | undefined }[],
): Promise<UserPage[]> {
  return readPages(db, selectUsers, requests, [
    uuidArray(requests.map((one) => one.after ?? OLDEST)),
    USERS_PER_PAGE,
  ]);
}

/**
 * Reads a page for each request by a statement that returns its `place` among the requests. The first values
 * of the statement are the ids of the broadcasts and of the projects. A request without a row has no users.
 */
export async function readPages(
  db: Queryable,
  statement: Statement,
  requests: readonly { broadcastId: string; projectId: string }[],
  values: readonly unknown[],
): Promise<UserPage[]> {
  const rows = await db.query<{ place: number; user_ids: string[]; next: string | null }>(statement, [
    uuidArray(requests.map((one) => one.broadcastId)),
    uuidArray(requests.map((one) => one.projectId)),
    ...values,
  ]);
  const pages = requests.map((): UserPage => ({ userIds: [], next: undefined }));
  for (const { place, user_ids: userIds, next } of rows)
    pages[place - 1] = { userIds, next: next ?? undefined };
  return pages;
}

/** SQL: the users of `page` without those of the first page of the broadcast, by primary key. */
export const NOT_NAMED = `array(
      select unnest(page.user_ids)
      except
      select unnest(named.user_ids)
      from broadcast_users named
      where named.broadcast_id = w.broadcast_id and named.page = 0
    )`;

// Index users_of_project (project_id, id), from `after` until the page is full. It compares and orders by
// pairs: the primary key, which orders the users of all projects, would be read through those of others.
const selectUsers = sql(
  'next_users',
  `select w.place::int as place,
    ${NOT_NAMED} as user_ids,
    page.user_ids[$4] as next
  from unnest($1::uuid[], $2::uuid[], $3::uuid[])
    with ordinality as w (broadcast_id, project_id, after, place)
  cross join lateral (
    select array(
      select u.id
      from users u
      where (u.project_id, u.id) > (w.project_id, w.after) and u.project_id = w.project_id
        and u.deleted_at is null
      order by u.project_id, u.id
      limit $4
    ) as user_ids
    offset 0
  ) page`,
);
