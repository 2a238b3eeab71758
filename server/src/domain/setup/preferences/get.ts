import type { Preferences } from '../../../contract/preference.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { storedKey, UNCATEGORIZED } from '../../ground/links/stored-key.ts';
import type { Category, CategoryCache } from '../categories/of-project.ts';
import type { IntegrationCache } from '../integrations/of-project.ts';

type Categories = Preferences['categories'];
type ChannelName = Categories[number]['channels'][number]['name'];

/**
 * On which channels the user gets which categories: those that the project has configured, and not disabled,
 * with the channels that they go out on; and whatever the user has said something about, other categories
 * with the channels that are set up.
 */
export async function getPreferences(
  {
    db,
    categories,
    integrations,
  }: { db: Queryable; categories: CategoryCache; integrations: IntegrationCache },
  { projectId, userId }: { projectId: string; userId: string },
): Promise<Preferences> {
  const [{ configured }, opened, said] = await Promise.all([
    categories.of(projectId),
    integrations.of(projectId),
    db.query<Said>(selectPreferences, [userId]),
  ]);
  const setUp = ['in_app', ...new Set(opened.map((integration) => integration.channel))];
  return { categories: preferencesOf(configured, setUp, said) };
}

/** The stored category of a key on the wire. */
export function categoryOf(key: string, configured: ReadonlyMap<string, Category>): string | null {
  return key === UNCATEGORIZED && !configured.has(key) ? null : key;
}

interface Said {
  category: string;
  channel: string;
  enabled: boolean;
}

function preferencesOf(
  configured: ReadonlyMap<string, Category>,
  setUp: readonly string[],
  said: readonly Said[],
): Categories {
  const bySaid = Map.groupBy(said, (one) => one.category);
  // Preferences from before it was critical are kept, and ignored.
  const requiredEntry = ({ key, channels }: Category) => ({
    key,
    label: null,
    required: true,
    channels: channels.map(({ channel }) => ({ name: channel as ChannelName, enabled: true })),
  });
  const entry = (key: string, stored: string, channels: readonly string[]) => {
    const off = new Set((bySaid.get(stored) ?? []).filter((one) => !one.enabled).map((one) => one.channel));
    return {
      key,
      label: null,
      channels: [...new Set(channels)].map((name) => ({
        name: name as ChannelName,
        enabled: !off.has(name),
      })),
    };
  };
  const saidOf = (stored: string) => (bySaid.get(stored) ?? []).map((one) => one.channel);
  const listed: Categories = [];
  for (const category of configured.values()) {
    const { key, disabled, critical, channels } = category;
    if (disabled && !bySaid.has(key)) continue;
    listed.push(
      critical
        ? requiredEntry(category)
        : entry(key, key, [...channels.map((one) => one.channel), ...saidOf(key)]),
    );
  }
  const keys = new Set(listed.map((one) => one.key));
  for (const stored of bySaid.keys()) {
    const key = stored === storedKey(null) ? UNCATEGORIZED : stored;
    if (keys.has(key)) continue;
    keys.add(key);
    listed.push(entry(key, stored, [...setUp, ...saidOf(stored)]));
  }
  return listed;
}

// Primary key.
const selectPreferences = sql(
  'get_preferences',
  'select category, channel, enabled from preferences where user_id = $1 order by category, channel',
);
