import { NoContent } from '../../contract/common.ts';
import { MAX_PREFERENCES, Preferences, SavePreferences } from '../../contract/preference.ts';
import type { Category } from '../../domain/setup/categories/of-project.ts';
import { categoryOf, getPreferences } from '../../domain/setup/preferences/get.ts';
import { type Preference, savePreferences } from '../../domain/setup/preferences/save.ts';
import { ClientError } from '../../errors.ts';
import { itemsOf, memberOf } from '../../lib/members.ts';
import { type App, userRoute } from '../route.ts';

const tags: [string] = ['Preferences'];
const url = '/channels/user_preferences';

/** GET and PUT of /channels/user_preferences. */
export function preferenceRoutes(app: App): void {
  userRoute(app, {
    method: 'GET',
    url,
    operationId: 'getUserPreferences',
    summary: 'Get on which channels the user gets which categories',
    description:
      'Lists the categories that the project has configured and those about which the user has said something. What nobody switched off is on.',
    tags,
    reply: { 200: Preferences },
    handler: ({ user, project, context }) =>
      getPreferences(context, { projectId: project.id, userId: user.id }),
  });

  userRoute(app, {
    method: 'PUT',
    url,
    operationId: 'saveUserPreferences',
    summary: 'Switch categories on or off on channels',
    description:
      'Changes what is named, and nothing else. A category need not be known: what is said about it counts from its first broadcast on. ' +
      'A `required` category cannot be switched off: that is a 422, while `enabled: true` is accepted and changes nothing.',
    tags,
    body: SavePreferences,
    keysAndValues: 10_000, // as many categories with all their channels as 64 KiB hold
    alsoWrong: ({ body }) => contradictionsIn(body),
    reply: { 204: NoContent },
    async handler({ user, project, body, context }) {
      const { configured } = await context.categories.of(project.id);
      const preferences = preferencesIn(body, configured);
      const most = MAX_PREFERENCES;
      await savePreferences(context, { projectId: project.id, userId: user.id, preferences, most });
    },
  });
}

/**
 * The preferences in a body, each once. Throws `validation_failed` when it contradicts itself or switches off
 * a critical category. That a critical category is on is not stored: an opt-out from before counts again when
 * the category is no longer critical.
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

/** Where a body switches off a critical category. */
function requiredIn(
  { categories = [] }: SavePreferences,
  configured: ReadonlyMap<string, Category>,
): string[] {
  return categories.flatMap(({ key, channels = [] }, number) =>
    channels.flatMap(({ enabled }, index) =>
      enabled || !configured.get(key)?.critical
        ? []
        : [
            `Param 'categories.${number}.channels.${index}.enabled' must be true: ${key} is required and cannot be switched off`,
          ],
    ),
  );
}

/** Where a body, of whatever shape, says two things about the same. */
function contradictionsIn(body: unknown): string[] {
  const said = new Map<string, boolean>();
  const problems: string[] = [];
  for (const [number, category] of itemsOf(memberOf(body, 'categories')).entries()) {
    const key = memberOf(category, 'key');
    for (const [index, channel] of itemsOf(memberOf(category, 'channels')).entries()) {
      const [name, enabled] = [memberOf(channel, 'name'), memberOf(channel, 'enabled')];
      if (typeof key !== 'string' || typeof name !== 'string' || typeof enabled !== 'boolean') continue;
      if (said.get(`${key} ${name}`) === !enabled)
        problems.push(
          `Param 'categories.${number}.channels.${index}.enabled' contradicts what was said of ${key.slice(0, 255)} on ${name.slice(0, 255)} before`,
        );
      said.set(`${key} ${name}`, enabled);
    }
  }
  return problems;
}
