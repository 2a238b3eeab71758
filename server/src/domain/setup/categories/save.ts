import type { CategoryConfig } from '../../../contract/category.ts';
import { CHANNELS } from '../../../contract/channel.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { MAX_CONDITION_CHARACTERS, parseCondition } from '../../../lib/expression.ts';
import { newId } from '../../../lib/ids.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';
import { problemsOfChannels } from '../delivery-windows/problems.ts';

/** The most that a project can configure: all of them are kept in memory, and listed to every user. */
const MAX_CATEGORIES = 1_000;

/**
 * Saves a category's config in the place of the one with its key. Refuses conditions that cannot be parsed
 * and channels that are named twice. Saving the same again changes nothing.
 */
export async function saveCategory(
  { db, bus }: { db: Queryable; bus: Bus },
  projectId: string,
  config: CategoryConfig,
): Promise<void> {
  const problems = await categoryProblems(config);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const [row] = await db.query<{ saved: boolean; crowded: boolean }>(upsertCategory, [
    projectId,
    config.key,
    newId(),
    JSON.stringify(config),
    MAX_CATEGORIES,
    newEventId(),
    JSON.stringify({ payload: config }),
  ]);
  if (row?.crowded)
    throw new ClientError('validation_failed', [
      `Param 'key' is one too many: a project has at most ${MAX_CATEGORIES} category configs`,
    ]);
  if (row?.saved) bus.publish({ type: 'project_changed', projectId });
}

// Addresses of their own: GET /channels/user_preferences is the user's.
const TAKEN: ReadonlySet<string> = new Set(['user_preferences', 'user_delivery_windows', 'delivery_windows']);

// Of a config with more, the number is what is wrong. To parse what they say would only take time.
const MAX_CHANNELS = 2 * CHANNELS.length;

/** What is wrong with a config, as far as its schema does not say it, of whatever shape it is. */
export async function categoryProblems(config: unknown): Promise<string[]> {
  const problems: string[] = [];
  const key = memberOf(config, 'key');
  if (typeof key === 'string' && TAKEN.has(key)) problems.push(`Param 'key' must not be ${key}`);
  const channels = itemsOf(memberOf(config, 'channels')).slice(0, MAX_CHANNELS);
  problems.push(...problemsOfChannels(channels));
  for (const [index, given] of channels.entries()) {
    const condition = memberOf(given, 'if');
    if (typeof condition !== 'string' || condition.length > MAX_CONDITION_CHARACTERS) continue;
    const parsed = await parseCondition(condition);
    if ('problem' in parsed)
      problems.push(`Param 'channels.${index}.if' is not a condition: ${parsed.problem}`);
  }
  return problems;
}

// Primary key; index categories_listed to count. Configs are compared as texts, which are ours.
const upsertCategory = sql(
  'save_category',
  `with known as (
    select (
        select count(*) from (select from categories where project_id = $1 limit $5) counted
      ) >= $5
      and not exists (select from categories where project_id = $1 and key = $2) as crowded
  ),
  saved as (
    insert into categories as c (project_id, key, id, config, updated_at)
    select $1, $2, $3, $4, now()
    from known
    where not crowded
    on conflict (project_id, key) do update
    set config = excluded.config, updated_at = excluded.updated_at
    where c.config::text <> excluded.config::text
    returning key
  ),
  event as (
    insert into events (project_id, id, type, details)
    select $1, $6, 'category.saved', $7
    from saved
  )
  select crowded, exists (select from saved) as saved from known`,
);
