import { type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import { NEWEST } from '../../../lib/cursor.ts';
import { firstIdAt } from '../../../lib/ids.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const DAYS = 30;
// The newest broadcasts that are read: 50 ms.
const MAX_READ = 20_000;

/** The broadcasts of a label, and the users that they addressed. */
export interface BroadcastCount {
  label: string;
  broadcasts: number;
  recipients: number;
}

/**
 * Counts the broadcasts of the last 30 days, at most the newest 20,000: by day in UTC, by category or by
 * topic. The label of broadcasts without a category is `uncategorized`.
 */
export async function countBroadcasts(
  { db, clock }: { db: Queryable; clock: Clock },
  projectId: string,
  by: 'day' | 'category' | 'topic',
): Promise<BroadcastCount[]> {
  const today = Math.floor(clock.now() / DAY_MS);
  const days = Array.from({ length: DAYS }, (_, index) => (today - DAYS + 1 + index) * DAY_MS);
  const first = firstIdAt(days[0] ?? 0);
  const newest = [projectId, first, MAX_READ];
  if (by !== 'day') return db.query<BroadcastCount>(GROUPED[by], newest);
  const starts = [...days, (today + 1) * DAY_MS].map(firstIdAt);
  const counts = await db.query<Omit<BroadcastCount, 'label'>>(countDays, [...newest, starts]);
  return counts.map((count, index) => ({ label: new Date(days[index] ?? 0).toISOString(), ...count }));
}

// Index broadcasts_of_project, by pairs (db/list-statements.ts). The limit is a parameter: with a constant of
// that size the planner may read all broadcasts and sort them.
const NEWEST_OF_PROJECT = `select id, category, topic, total
    from broadcasts
    where (project_id, id) >= ($1, $2) and (project_id, id) <= ($1, '${NEWEST}')
    order by project_id desc, id desc
    limit $3`;
// The last start is the end of the last day.
const countDays = sql(
  'count_broadcasts_by_day',
  `select coalesce(counted.broadcasts, 0) as broadcasts, coalesce(counted.recipients, 0) as recipients
  from generate_series(1, cardinality($4::uuid[]) - 1) as day
  left join (
    select width_bucket(id, $4::uuid[]) as day, count(*)::int as broadcasts, sum(total) as recipients
    from (
      ${NEWEST_OF_PROJECT}
    ) newest
    group by 1
  ) counted using (day)
  order by day`,
);
const grouped = (name: string, label: string, where: string) =>
  sql(
    name,
    `select label, count(*)::int as broadcasts, sum(total) as recipients
  from (
    select ${label} as label, total
    from (
      ${NEWEST_OF_PROJECT}
    ) newest
    where ${where}
  ) labelled
  group by label
  order by label collate "C"`,
  );
const GROUPED = {
  category: grouped('count_broadcasts_by_category', "coalesce(category, 'uncategorized')", 'true'),
  topic: grouped('count_broadcasts_by_topic', 'topic', 'topic is not null'),
};
