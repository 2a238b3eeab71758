import { type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
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
  if (by !== 'day') return db.query<BroadcastCount>(GROUPED[by], [projectId, first]);
  const counts = await db.query<Omit<BroadcastCount, 'label'>>(countDays, [
    projectId,
    first,
    days.map(firstIdAt),
    days.map((ms) => firstIdAt(ms + DAY_MS)),
  ]);
  return counts.map((count, index) => ({ label: new Date(days[index] ?? 0).toISOString(), ...count }));
}

// Index broadcasts_of_project.
const NEWEST_OF_PROJECT = `select id, category, topic, total
    from broadcasts
    where project_id = $1 and id >= $2
    order by project_id desc, id desc
    limit ${MAX_READ}`;
const countDays = sql(
  'count_broadcasts_by_day',
  `with newest as materialized (
    ${NEWEST_OF_PROJECT}
  )
  select count(newest.id)::int as broadcasts, coalesce(sum(newest.total), 0)::int as recipients
  from unnest($3::uuid[], $4::uuid[]) as day (since, before)
  left join newest on newest.id >= day.since and newest.id < day.before
  group by day.since
  order by day.since`,
);
const grouped = (name: string, label: string, where: string) =>
  sql(
    name,
    `select label, count(*)::int as broadcasts, sum(total)::int as recipients
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
