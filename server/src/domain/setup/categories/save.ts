import type { CategoryConfig } from '../../../contract/category.ts';
import { CHANNELS } from '../../../contract/channel.ts';
import { CATEGORY_DATA } from '../../../contract/readable.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { MAX_CONDITION_CHARACTERS, parseCondition, variablesOf } from '../../../lib/expression.ts';
import { newId } from '../../../lib/ids.ts';
import { localeProblems } from '../../../lib/locale.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { unknownVariables } from '../../../lib/variables.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';
import { problemsOfChannels } from '../delivery-windows/problems.ts';

// All of a project's categories are kept in memory, and listed to every user.
const MAX_CATEGORIES = 1_000;

/**
 * Creates or replaces a category's config. Does nothing if it is unchanged. Throws `validation_failed` for
 * conditions that cannot be parsed and for repeated channels.
 */
export async function saveCategory(
  { db, bus }: { db: Queryable; bus: Bus },
  projectId: string,
  config: CategoryConfig,
): Promise<void> {
  const problems = await categoryProblems(config);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const [row] = await db.query<{ saved: boolean; too_many: boolean }>(upsertCategory, [
    projectId,
    config.key,
    newId(),
    JSON.stringify(config),
    MAX_CATEGORIES,
    newEventId(),
    JSON.stringify({ payload: config }),
  ]);
  if (row?.too_many)
    throw new ClientError('validation_failed', [
      `Param 'key' cannot be added: a project can have at most ${MAX_CATEGORIES} category configs`,
    ]);
  if (row?.saved) bus.publish({ type: 'project_changed', projectId });
}

// Paths of other endpoints, such as GET /channels/user_preferences.
const RESERVED: ReadonlySet<string> = new Set([
  'user_preferences',
  'user_delivery_windows',
  'delivery_windows',
]);

// Locales beyond this are not validated: the schema rejects their number.
const MAX_LOCALES = 100;
// Channels beyond this are not validated: the schema rejects their number.
const MAX_CHANNELS = 2 * CHANNELS.length;

/** Returns the problems of a config of any shape that its schema does not find. */
export async function categoryProblems(config: unknown): Promise<string[]> {
  const problems: string[] = [];
  const key = memberOf(config, 'key');
  if (typeof key === 'string' && RESERVED.has(key)) problems.push(`Param 'key' must not be ${key}`);
  const texts = memberOf(config, 'locales');
  const locales = typeof texts === 'object' ? Object.keys(texts ?? {}).slice(0, MAX_LOCALES) : [];
  problems.push(...locales.flatMap((locale) => localeProblems(locale, `locales.${locale.slice(0, 100)}`)));
  const channels = itemsOf(memberOf(config, 'channels')).slice(0, MAX_CHANNELS);
  problems.push(...problemsOfChannels(channels));
  for (const [index, given] of channels.entries()) {
    const condition = memberOf(given, 'if');
    if (typeof condition !== 'string' || condition.length > MAX_CONDITION_CHARACTERS) continue;
    const parsed = await parseCondition(condition);
    const place = `Param 'channels.${index}.if'`;
    if ('problem' in parsed) problems.push(`${place} is not a condition: ${parsed.problem}`);
    else problems.push(...unknownVariables(variablesOf(parsed), CATEGORY_DATA, place));
  }
  return problems;
}

// Primary key; index categories_listed to count. Configs are compared as JSON texts that this server wrote.
const upsertCategory = sql(
  'save_category',
  `with known as (
    select (
        select count(*) from (select from categories where project_id = $1 limit $5) counted
      ) >= $5
      and not exists (select from categories where project_id = $1 and key = $2) as too_many
  ),
  saved as (
    insert into categories as c (project_id, key, id, config, updated_at)
    select $1, $2, $3, $4, now()
    from known
    where not too_many
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
  select too_many, exists (select from saved) as saved from known`,
);
