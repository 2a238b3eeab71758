import { UNCATEGORIZED } from '../../../contract/category.ts';
import type { Preferences } from '../../../contract/preference.ts';
import { categoryPreferences, enabledChannels, type PreferenceContext } from './get.ts';
import type { UserSettings } from './settings.ts';

/** The preference of a user for a category, as the page shows it. */
export type ShownCategory = Preferences['categories'][number];

/**
 * Returns the categories that a user with these settings can choose from, with the channels that the project
 * has set up. `linked` is the category of the message that led to the page; it need not be configured.
 */
export async function shownCategories(
  context: Omit<PreferenceContext, 'db'>,
  { projectId, linked }: { projectId: string; linked: string | undefined },
  settings: Pick<UserSettings, 'locale' | 'categories'>,
): Promise<ShownCategory[]> {
  const [categoriesOf, setUp, { configured }] = await Promise.all([
    categoryPreferences(context, projectId),
    enabledChannels(context, projectId),
    context.categories.of(projectId),
  ]);
  const shown = categoriesOf(settings)
    .map((category) => ({
      ...category,
      channels: category.channels.filter(({ name }) => setUp.includes(name)),
    }))
    .filter(({ channels }) => channels.length > 0);
  const added = linked ?? (shown.length === 0 ? UNCATEGORIZED : undefined);
  if (added === undefined || configured.has(added) || shown.some(({ key }) => key === added)) return shown;
  const channels = setUp.map((name) => ({ name, enabled: true }) as ShownCategory['channels'][number]);
  return [...shown, { key: added, label: null, channels }];
}
