import { NoContent } from '../../contract/common.ts';
import { MAX_PREFERENCES, Preferences, SavePreferences } from '../../contract/preference.ts';
import { categoryOf, getPreferences } from '../../domain/preferences/get.ts';
import { type Preference, savePreferences } from '../../domain/preferences/save.ts';
import { ClientError } from '../../errors.ts';
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
      'Changes what is named, and nothing else. A category need not be known: what is said about it counts from its first broadcast on.',
    tags,
    body: SavePreferences,
    reply: { 204: NoContent },
    async handler({ user, project, body, context }) {
      const { configured } = await context.categories.of(project.id);
      const preferences = preferencesIn(body, (key) => categoryOf(key, configured));
      const most = MAX_PREFERENCES;
      await savePreferences(context, { projectId: project.id, userId: user.id, preferences, most });
    },
  });
}

/** What a body says, each once; refused when it says two things about the same. */
function preferencesIn(body: SavePreferences, stored: (key: string) => string | null): Preference[] {
  const said = new Map<string, Preference>();
  const problems: string[] = [];
  for (const [number, { key, channels = [] }] of (body.categories ?? []).entries()) {
    for (const [index, { name, enabled }] of channels.entries()) {
      const before = said.get(`${key} ${name}`);
      if (before !== undefined && before.enabled !== enabled)
        problems.push(
          `Param 'categories.${number}.channels.${index}.enabled' contradicts what was said of ${key} on ${name} before`,
        );
      said.set(`${key} ${name}`, { category: stored(key), channel: name, enabled });
    }
  }
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  return [...said.values()];
}
