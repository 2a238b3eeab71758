import type { FastifyRequest } from 'fastify';
import type { CHANNELS } from '../../contract/channel.ts';
import { FLAGGED_CHANNELS, LegacyPreferences, SaveLegacyPreferences } from '../../contract/v1/preference.ts';
import {
  changePreferences,
  contradictions,
  type GivenPreference,
} from '../../domain/setup/preferences/change.ts';
import { enabledChannels, getPreferences } from '../../domain/setup/preferences/get.ts';
import { itemsOf, memberOf } from '../../lib/members.ts';
import type { CallContext } from '../context.ts';
import { type App, userRoute } from '../route.ts';

type Channel = (typeof CHANNELS)[number];

const tags: [string] = ['Preferences'];
const url = '/notification_preferences';
const SHAPES = 'The header `accept-version: v2` selects a list with labels instead of a map of flags.';

/** Registers `/notification_preferences`. */
export function preferenceRoutes(app: App): void {
  userRoute(app, {
    method: 'GET',
    url,
    operationId: 'getPreferencesV1',
    summary: 'Get the preferences of the user',
    description:
      'Has every category that the project configured or that the user saved a preference for, with every ' +
      `channel that is enabled for the project. ${SHAPES}`,
    tags,
    reply: { 200: LegacyPreferences },
    handler: ({ owner, context, request }) => preferencesOf(context, owner, wantsList(request)),
  });

  userRoute(app, {
    method: 'PUT',
    url,
    operationId: 'savePreferencesV1',
    summary: 'Switch categories on or off for the user',
    description:
      'Changes only the categories and channels in the body, which may be a map or a list. Channels that ' +
      `are not enabled for the project are ignored. Returns all preferences. ${SHAPES}`,
    tags,
    body: SaveLegacyPreferences,
    keysAndValues: 10_000, // as many categories with all their channels as 64 KiB hold
    alsoWrong: ({ body }) => contradictions(givenIn(body)),
    reply: { 200: LegacyPreferences },
    async handler({ owner, project, body, context, request }) {
      const enabled = await enabledChannels(context, project.id);
      const given = givenIn(body).filter(({ channel }) => enabled.includes(channel));
      await changePreferences(context, owner, given);
      return preferencesOf(context, owner, wantsList(request));
    },
  });
}

function wantsList({ headers }: FastifyRequest): boolean {
  return headers['accept-version'] === 'v2';
}

async function preferencesOf(
  context: CallContext,
  owner: { projectId: string; userId: string },
  asList: boolean,
): Promise<LegacyPreferences> {
  const [{ categories }, enabled] = await Promise.all([
    getPreferences(context, owner),
    enabledChannels(context, owner.projectId),
  ]);
  type Category = (typeof categories)[number];
  // A required category has its own channels alone: the others are no opt-outs, which would be rejected.
  const isOn = ({ required, channels }: Category, channel: string) =>
    required === true || channels.some((one) => one.name === channel && one.enabled);
  if (asList)
    return {
      notification_preferences: {
        categories: categories.map((category) => ({
          slug: category.key,
          label: category.label ?? category.key,
          ...(category.required && { required: true }),
          channels: enabled.map((channel) => ({
            slug: channel as Channel,
            label: LABELS[channel as Channel],
            enabled: isOn(category, channel),
          })),
        })),
      },
    };
  const flagged = FLAGGED_CHANNELS.filter((channel) => enabled.includes(channel));
  const flags = categories.map((category) => [
    category.key,
    Object.fromEntries(flagged.map((channel) => [channel, isOn(category, channel)])),
  ]);
  return { notification_preferences: { categories: Object.fromEntries(flags) } };
}

const LABELS: Record<Channel, string> = {
  in_app: 'In app',
  email: 'Email',
  mobile_push: 'Mobile push',
  web_push: 'Web push',
  slack: 'Slack',
  teams: 'Teams',
  sms: 'SMS',
};

/** Returns the preferences in a body of any shape. */
function givenIn(body: unknown): GivenPreference[] {
  const path = 'notification_preferences.categories';
  const categories = memberOf(memberOf(body, 'notification_preferences'), 'categories');
  const given = Array.isArray(categories)
    ? categories.flatMap((category, number) =>
        itemsOf(memberOf(category, 'channels')).map((item, index) => ({
          key: memberOf(category, 'slug'),
          channel: memberOf(item, 'slug'),
          enabled: memberOf(item, 'enabled'),
          param: `${path}.${number}.channels.${index}.enabled`,
        })),
      )
    : Object.entries(categories ?? {}).flatMap(([key, flags]) =>
        Object.entries((flags ?? {}) as object).map(([channel, enabled]) => ({
          key,
          channel,
          enabled: enabled as unknown,
          param: `${path}.${key}.${channel}`,
        })),
      );
  return given.filter(
    (one): one is GivenPreference =>
      typeof one.key === 'string' && typeof one.channel === 'string' && typeof one.enabled === 'boolean',
  );
}
