import { UNCATEGORIZED } from '../../../contract/category.ts';
import type { Preferences } from '../../../contract/preference.ts';
import type { Queryable } from '../../../db/client.ts';
import { fallbacksOf } from '../../../lib/locale.ts';
import { type Category, type CategoryCache, storedKey } from '../categories/cache.ts';
import type { IntegrationCache } from '../integrations/cache.ts';
import { type CategoryPreference, settingsOf, type UserSettings } from './settings.ts';

type Categories = Preferences['categories'];
type ChannelName = Categories[number]['channels'][number]['name'];

export interface PreferenceContext {
  db: Queryable;
  categories: CategoryCache;
  integrations: IntegrationCache;
}

interface Owner {
  projectId: string;
  userId: string;
}

interface Owners {
  projectId: string;
  userIds: readonly string[];
}

/** Returns a user's preferences, with labels in the user's language. */
export async function getPreferences(
  context: PreferenceContext,
  { projectId, userId }: Owner,
): Promise<Preferences> {
  return (await preferencesOf(context, { projectId, userIds: [userId] }))(userId);
}

/** Returns the preferences of users of a project, with labels in the language of each. */
export async function preferencesOf(
  context: PreferenceContext,
  users: Owners,
): Promise<(userId: string) => Preferences> {
  const [settings, categoriesOf] = await Promise.all([
    settingsOf(context.db, users),
    categoryPreferences(context, users.projectId),
  ]);
  return (userId) => {
    const { locale = null, timeZone = null, quietHours = null, categories = [] } = settings.get(userId) ?? {};
    return { categories: categoriesOf({ locale, categories }), time_zone: timeZone, quiet_hours: quietHours };
  };
}

/**
 * Returns the preferences of a user of the project for its enabled categories with their channels, and for
 * each category and channel that the user has a preference for. Categories without a config have all
 * connected channels.
 */
export async function categoryPreferences(
  { categories, integrations }: Omit<PreferenceContext, 'db'>,
  projectId: string,
): Promise<(settings: Pick<UserSettings, 'locale' | 'categories'>) => Categories> {
  const [{ configured }, channels] = await Promise.all([
    categories.of(projectId),
    enabledChannels({ integrations }, projectId),
  ]);
  return ({ locale, categories: preferences }) =>
    listCategories(configured, channels, { preferences, tags: fallbacksOf(locale ?? '') });
}

/** Returns the texts of a category in the first of these languages that it has, or else its own. */
function textsOf(
  { label, description, locales }: Category,
  tags: readonly string[],
): Pick<Categories[number], 'label' | 'description'> {
  const tag = locales && tags.find((one) => Object.hasOwn(locales, one));
  const translated = tag === undefined ? undefined : locales?.[tag];
  const text = translated?.description ?? description;
  return { label: translated?.label ?? label ?? null, ...(text !== undefined && { description: text }) };
}

/** Returns the inbox, and each channel for which the project has an integration. */
export async function enabledChannels(
  { integrations }: { integrations: IntegrationCache },
  projectId: string,
): Promise<string[]> {
  const connected = await integrations.of(projectId);
  return [...new Set(['in_app', ...connected.map((integration) => integration.channel)])];
}

/** Returns the category of a key in the API; null for notifications without a category. */
export function categoryOf(key: string, configured: ReadonlyMap<string, Category>): string | null {
  return key === UNCATEGORIZED && !configured.has(key) ? null : key;
}

function listCategories(
  configured: ReadonlyMap<string, Category>,
  connectedChannels: readonly string[],
  { preferences, tags }: { preferences: readonly CategoryPreference[]; tags: readonly string[] },
): Categories {
  const byCategory = Map.groupBy(preferences, ([category]) => category);
  const listed: Categories = [];
  for (const category of configured.values()) {
    const { key, disabled, critical } = category;
    const saved = byCategory.get(key);
    if (disabled && saved === undefined) continue;
    const channels = category.channels.map(({ channel }) => channel);
    const { label, ...description } = textsOf(category, tags);
    listed.push(
      critical
        ? // Preferences from before the category became critical are kept, but ignored.
          { key, label, required: true, channels: switches(channels), ...description }
        : { key, label, channels: switches(channels, saved), ...description },
    );
  }
  const keys = new Set(listed.map((one) => one.key));
  for (const [stored, saved] of byCategory) {
    const key = stored === storedKey(null) ? UNCATEGORIZED : stored;
    if (keys.has(key)) continue;
    keys.add(key);
    listed.push({ key, label: null, channels: switches(connectedChannels, saved) });
  }
  return listed;
}

/** Returns which of a category's channels, and of those with a preference, are enabled. */
function switches(
  channels: readonly string[],
  preferences: readonly CategoryPreference[] = [],
): Categories[number]['channels'] {
  if (preferences.length === 0) return channels.map((name) => ({ name: name as ChannelName, enabled: true }));
  const off = new Set(preferences.filter(([, , enabled]) => !enabled).map(([, channel]) => channel));
  const names = new Set([...channels, ...preferences.map(([, channel]) => channel)]);
  return [...names].map((name) => ({ name: name as ChannelName, enabled: !off.has(name) }));
}
