import { type Queryable, sql } from '../../../db/client.ts';
import { NEWEST, OLDEST } from '../../../lib/cursor.ts';

/**
 * How many broadcasts are few: what a user has got of so many is looked up in 0.3 ms, which is what passing
 * over 1,500 other notifications takes.
 */
export const FEW_BROADCASTS = 500;

/**
 * The ids of all broadcasts of the project in a category, or without one (`null`), or under a topic;
 * undefined where they are more than `FEW_BROADCASTS`.
 */
export async function findFewBroadcasts(
  db: Queryable,
  projectId: string,
  by: { category: string | null } | { topic: string },
): Promise<string[] | undefined> {
  const [row] =
    'topic' in by
      ? await db.query<Row>(ofTopic, [projectId, by.topic])
      : by.category === null
        ? await db.query<Row>(withoutCategory, [projectId])
        : await db.query<Row>(ofCategory, [projectId, by.category]);
  return row?.ids ?? undefined;
}

interface Row {
  ids: string[] | null;
}

const few = (condition: string) =>
  `select case when count(*) <= ${FEW_BROADCASTS} then coalesce(array_agg(id), '{}') end as ids
  from (
    select id
    from broadcasts
    where ${condition}
    limit ${FEW_BROADCASTS + 1}
  ) b`;

// The index alone, oldest first: what is old has been vacuumed, so that its rows need not be looked at. The
// places are compared, and ordered by, as pairs: where nearly all are of one category, broadcasts_of_project
// would look as good, and be read to its end for another.
const within = (column: string) =>
  `project_id = $1
      and (${column}, id) >= ($2, '${OLDEST}')
      and (${column}, id) <= ($2, '${NEWEST}')
    order by ${column}, id`;

// Index broadcasts_of_category (project_id, category, id), both.
const ofCategory = sql('few_broadcasts_of_category', few(within('category')));
const withoutCategory = sql(
  'few_broadcasts_without_category',
  few('project_id = $1\n      and category is null\n    order by category, id'),
);
// Index broadcasts_of_topic (project_id, topic, id).
const ofTopic = sql('few_broadcasts_of_topic', few(`topic is not null\n      and ${within('topic')}`));
