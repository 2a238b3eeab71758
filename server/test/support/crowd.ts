import { sql } from '../../src/db/client.ts';
import type { TestProject, TestService } from './service.ts';

/**
 * Inserts the users `crowd-1`, `crowd-2` and so on. Returns their ids, ascending. With `categories` they are
 * subscribed to the topic `news`.
 */
export async function insertCrowd(
  { context }: Pick<TestService, 'context'>,
  { id: projectId }: Pick<TestProject, 'id'>,
  count: number,
  {
    mailedEvery = 1,
    categories = '{"*": {"status": "subscribed"}}',
  }: {
    /** One of this many users has an address. */
    mailedEvery?: number;
    categories?: string | null;
  } = {},
): Promise<string[]> {
  const inserted = await context.db.query<{ id: string }>(insert, [
    projectId,
    count,
    mailedEvery,
    categories,
  ]);
  return inserted.map(({ id }) => id);
}

const insert = sql(
  '',
  `with made as (
    insert into users (id, project_id, external_id, email, created_at, updated_at)
    select gen_random_uuid(), $1, 'crowd-' || n,
      case when n % $3::int = 0 then 'crowd-' || n || '@example.com' end, now(), now()
    from generate_series(1, $2::int) n
    returning id, external_id
  ),
  keyed as (
    insert into user_keys (project_id, kind, value, user_id)
    select $1, 'external_id', external_id, id from made
  ),
  subscribed as (
    insert into subscriptions (user_id, topic, id, project_id, categories)
    select id, 'news', gen_random_uuid(), $1, $4::jsonb
    from made
    where $4 is not null
  )
  select id from made order by id`,
);
