import { NoContent } from '../../contract/common.ts';
import { SavePreferences, UserPreferences } from '../../contract/preference.ts';
import { preferencesUrl } from '../../domain/ground/links/signed-links.ts';
import { problemsOfPreferences, saveUserPreferences } from '../../domain/setup/preferences/change.ts';
import { getPreferences } from '../../domain/setup/preferences/get.ts';
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
      'preference, each with its channels. A channel is enabled until the user switches it off. Labels and ' +
      'descriptions are in the language of the user. `preferences_url` is a page for end users.',
    tags,
    reply: { 200: UserPreferences },
    async handler({ owner, user, project, context }) {
      return {
        ...(await getPreferences(context, owner)),
        preferences_url: preferencesUrl(context.config, project, { userId: user.id }),
      };
    },
  });

  routeOfUser(app, {
    method: 'PUT',
    url,
    operationId: 'saveUserPreferences',
    summary: 'Switch categories on or off for the user',
    forProject: { summary: 'Switch categories on or off for a user', url: '/preferences' },
    description:
      'Changes only what is in the body. A category need not exist yet: the ' +
      'preference applies from its first broadcast. Switching off a `required` category is a 422; ' +
      '`enabled: true` is accepted for it and has no effect. During `quiet_hours` text messages, push and ' +
      'chat messages wait; `null` removes them.',
    tags,
    body: SavePreferences,
    keysAndValues: 10_000, // as many categories with all their channels as 64 KiB hold
    alsoWrong: ({ body }) => problemsOfPreferences(body),
    reply: { 204: NoContent },
    async handler({ owner, body, context }) {
      await saveUserPreferences(context, owner, body);
    },
  });
}
