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
    listCategories(configured, channels, preferences).map((listed) => ({
      ...listed,
      ...textsOf(configured.get(listed.key), locale),
    }));
}

/** Returns the texts of a category for users with this locale. */
function textsOf(
  { label, description, locales = {} }: Partial<Category> = {},
  locale: string | null,
): Pick<Categories[number], 'label' | 'description'> {
  const tag = fallbacksOf(locale ?? '').find((one) => Object.hasOwn(locales, one));
  const translated = tag === undefined ? {} : locales[tag];
  const text = translated?.description ?? description;
  return {
    label: translated?.label ?? label ?? null,
    ...(text === undefined ? {} : { description: text }),
  };
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
  preferences: readonly CategoryPreference[],
): Categories {
  const byCategory = Map.groupBy(preferences, ([category]) => category);
  // Preferences from before the category became critical are kept, but ignored.
  const requiredEntry = ({ key, channels }: Category) => ({
    key,
    label: null,
    required: true,
    channels: channels.map(({ channel }) => ({ name: channel as ChannelName, enabled: true })),
  });
  const entry = (key: string, stored: string, channels: readonly string[]) => {
    const off = new Set(
      (byCategory.get(stored) ?? []).filter(([, , enabled]) => !enabled).map(([, channel]) => channel),
    );
    return {
      key,
      label: null,
      channels: [...new Set(channels)].map((name) => ({
        name: name as ChannelName,
        enabled: !off.has(name),
      })),
    };
  };
  const channelsOf = (stored: string) => (byCategory.get(stored) ?? []).map(([, channel]) => channel);
  const listed: Categories = [];
  for (const category of configured.values()) {
    const { key, disabled, critical, channels } = category;
    if (disabled && !byCategory.has(key)) continue;
    listed.push(
      critical
        ? requiredEntry(category)
        : entry(key, key, [...channels.map((one) => one.channel), ...channelsOf(key)]),
    );
  }
  const keys = new Set(listed.map((one) => one.key));
  for (const stored of byCategory.keys()) {
    const key = stored === storedKey(null) ? UNCATEGORIZED : stored;
    if (keys.has(key)) continue;
    keys.add(key);
    listed.push(entry(key, stored, [...connectedChannels, ...channelsOf(stored)]));
  }
  return listed;
}
