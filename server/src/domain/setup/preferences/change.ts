import { MAX_PREFERENCES, type SavePreferences } from '../../../contract/preference.ts';
import type { Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import type { Category, CategoryCache } from '../categories/cache.ts';
import { problemsOfTimes } from '../delivery-windows/problems.ts';
import { saveTimes } from '../delivery-windows/save.ts';
import { categoryOf } from './get.ts';
import { type Preference, savePreferences } from './save.ts';

/** A preference in a request. */
export interface GivenPreference {
  key: string;
  channel: string;
  enabled: boolean;
  /** The name of its field. */
  param: string;
}

/**
 * Changes the preferences, quiet hours and time zone in a request. Throws `validation_failed` as
 * `changePreferences` does; then nothing is saved.
 */
export async function saveUserPreferences(
  context: { db: Queryable; bus: Bus; categories: CategoryCache },
  owner: { projectId: string; userId: string },
  body: SavePreferences,
): Promise<void> {
  const problems = problemsOfTimes(body);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  await changePreferences(context, owner, givenPreferences(body));
  await saveTimes(context, owner, body);
}

/** Returns the problems of a body of any shape that its schema does not find. */
export function problemsOfPreferences(body: unknown): string[] {
  return [...contradictions(givenPreferences(body)), ...problemsOfTimes(body)];
}

/**
 * Changes the given preferences, for every interface. Throws `validation_failed` if they contradict each
 * other or switch off a critical category.
 */
export async function changePreferences(
  context: { db: Queryable; bus: Bus; categories: CategoryCache },
  { projectId, userId }: { projectId: string; userId: string },
  given: readonly GivenPreference[],
): Promise<void> {
  const { configured } = await context.categories.of(projectId);
  const preferences = checked(given, configured);
  await savePreferences(context, { projectId, userId, preferences, max: MAX_PREFERENCES });
}

/** Returns the preferences in a body of any shape: those that have the shape of `SavePreferences`. */
export function givenPreferences(body: unknown): GivenPreference[] {
  return itemsOf(memberOf(body, 'categories')).flatMap((category, number) => {
    const key = memberOf(category, 'key');
    return itemsOf(memberOf(category, 'channels')).flatMap((item, index) => {
      const [channel, enabled] = [memberOf(item, 'name'), memberOf(item, 'enabled')];
      if (typeof key !== 'string' || typeof channel !== 'string' || typeof enabled !== 'boolean') return [];
      return [{ key, channel, enabled, param: `categories.${number}.channels.${index}.enabled` }];
    });
  });
}

/** Reports each preference that contradicts an earlier one. */
export function contradictions(given: readonly GivenPreference[]): string[] {
  const earlier = new Map<string, boolean>();
  const problems: string[] = [];
  for (const { key, channel, enabled, param } of given) {
    const name = `${key} ${channel}`;
    if (earlier.get(name) === !enabled)
      problems.push(
        `Param '${param}' contradicts an earlier item: ${key.slice(0, 255)} on ${channel.slice(0, 255)}`,
      );
    earlier.set(name, enabled);
  }
  return problems;
}

/**
 * The preferences to save, each once. `enabled: true` for a critical category is not stored: an earlier
 * opt-out applies again when the category is no longer critical.
 */
function checked(given: readonly GivenPreference[], configured: ReadonlyMap<string, Category>): Preference[] {
  const problems = [...contradictions(given), ...required(given, configured)];
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const preferences = new Map<string, Preference>();
  for (const { key, channel, enabled } of given)
    if (!configured.get(key)?.critical)
      preferences.set(`${key} ${channel}`, { category: categoryOf(key, configured), channel, enabled });
  return [...preferences.values()];
}

/** Reports each critical category that is switched off. */
function required(given: readonly GivenPreference[], configured: ReadonlyMap<string, Category>): string[] {
  return given
    .filter(({ key, enabled }) => !enabled && configured.get(key)?.critical)
    .map(({ key, param }) => `Param '${param}' must be true: ${key} is required and cannot be switched off`);
}
