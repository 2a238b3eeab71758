import { NoContent } from '../../contract/common.ts';
import { MAX_PREFERENCES, Preferences, SavePreferences } from '../../contract/preference.ts';
import type { Category } from '../../domain/setup/categories/cache.ts';
import { categoryOf, getPreferences } from '../../domain/setup/preferences/get.ts';
import { type Preference, savePreferences } from '../../domain/setup/preferences/save.ts';
import { ClientError } from '../../errors.ts';
import { itemsOf, memberOf } from '../../lib/members.ts';
import type { App } from '../route.ts';
import { routeOfUser } from '../route-of-user.ts';

const tags: [string] = ['Preferences'];
const url = '/channels/user_preferences';

/** Registers `/channels/user_preferences` and `/users/{user_id}/preferences`. */
export function preferenceRoutes(app: App): void {
  routeOfUser(app, {
    method: 'GET',
    url,
    operationId: 'getUserPreferences',
    summary: 'Get the preferences of the user',
    forProject: { summary: 'Get the preferences of a user', url: '/preferences' },
    description:
      'Lists the categories that the project has configured and those for which the user saved a ' +
      'preference, each with its channels. A channel is enabled until the user switches it off.',
    tags,
    reply: { 200: Preferences },
    handler: ({ user, project, context }) =>
      getPreferences(context, { projectId: project.id, userId: user.id }),
  });

  routeOfUser(app, {
    method: 'PUT',
    url,
    operationId: 'saveUserPreferences',
    summary: 'Switch categories on or off for the user',
    forProject: { summary: 'Switch categories on or off for a user', url: '/preferences' },
    description:
      'Changes only the categories and channels in the body. A category need not exist yet: the ' +
      'preference applies from its first broadcast. Switching off a `required` category is a 422; ' +
      '`enabled: true` is accepted for it and has no effect.',
    tags,
    body: SavePreferences,
    keysAndValues: 10_000, // as many categories with all their channels as 64 KiB hold
    alsoWrong: ({ body }) => contradictionsIn(body),
    reply: { 204: NoContent },
    async handler({ user, project, body, context }) {
      const { configured } = await context.categories.of(project.id);
      const preferences = preferencesIn(body, configured);
      const most = MAX_PREFERENCES;
      await savePreferences(context, { projectId: project.id, userId: user.id, preferences, max: most });
    },
  });
}

/**
 * The preferences in a body, each once. Throws `validation_failed` if it contradicts itself or switches off a
 * critical category. `enabled: true` for a critical category is not stored: an earlier opt-out applies again
 * when the category is no longer critical.
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
          `Param 'categories.${number}.channels.${index}.enabled' contradicts an earlier item: ` +
            `${key.slice(0, 255)} on ${name.slice(0, 255)}`,
        );
      said.set(`${key} ${name}`, enabled);
    }
  }
  return problems;
}
