import { MAX_PREFERENCES, type SavePreferences } from '../../../contract/preference.ts';
import type { Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import type { Category, CategoryCache } from '../categories/cache.ts';
import { categoryOf } from './get.ts';
import { type Preference, savePreferences } from './save.ts';

/**
 * Changes the categories and channels that a body names, for every interface. Throws `validation_failed` if
 * it contradicts itself or switches off a critical category.
 */
export async function changePreferences(
  context: { db: Queryable; bus: Bus; categories: CategoryCache },
  { projectId, userId }: { projectId: string; userId: string },
  body: SavePreferences,
): Promise<void> {
  const { configured } = await context.categories.of(projectId);
  const preferences = preferencesIn(body, configured);
  await savePreferences(context, { projectId, userId, preferences, max: MAX_PREFERENCES });
}

/**
 * The preferences in a body, each once. `enabled: true` for a critical category is not stored: an earlier
 * opt-out applies again when the category is no longer critical.
 */
function preferencesIn(body: SavePreferences, configured: ReadonlyMap<string, Category>): Preference[] {
  const problems = [...contradictionsIn(body), ...requiredIn(body, configured)];
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const said = new Map<string, Preference>();
  for (const { key, channels = [] } of body.categories ?? []) {
    if (configured.get(key)?.critical) continue;
    for (const { name, enabled } of channels)
      said.set(`${key} ${name}`, { category: categoryOf(key, configured), channel: name, enabled });
  }
  return [...said.values()];
}

/** Reports each critical category that a body switches off. */
function requiredIn(
  { categories = [] }: SavePreferences,
  configured: ReadonlyMap<string, Category>,
): string[] {
  return categories.flatMap(({ key, channels = [] }, number) =>
    channels.flatMap(({ enabled }, index) =>
      enabled || !configured.get(key)?.critical
        ? []
        : [
            `Param 'categories.${number}.channels.${index}.enabled' must be true: ` +
              `${key} is required and cannot be switched off`,
          ],
    ),
  );
}

/** Reports each preference that a body contradicts. The body can have any shape. */
export function contradictionsIn(body: unknown): string[] {
  const said = new Map<string, boolean>();
  const problems: string[] = [];
  for (const [number, category] of itemsOf(memberOf(body, 'categories')).entries()) {
    const key = memberOf(category, 'key');
    for (const [index, channel] of itemsOf(memberOf(category, 'channels')).entries()) {
      const [name, enabled] = [memberOf(channel, 'name'), memberOf(channel, 'enabled')];
      if (typeof key !== 'string' || typeof name !== 'string' || typeof enabled !== 'boolean') continue;
      if (said.get(`${key} ${name}`) === !enabled)
        problems.push(
          `Param 'categories.${number}.channels.${index}.enabled' contradicts an earlier item: ` +
            `${key.slice(0, 255)} on ${name.slice(0, 255)}`,
        );
      said.set(`${key} ${name}`, enabled);
    }
  }
  return problems;
}
