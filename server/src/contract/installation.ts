import { type Static, type TProperties, Type } from 'typebox';
import { nullable, storedString } from './common.ts';

/** An object with these members only. */
function part<Members extends TProperties>(title: string, members: Members) {
  return Type.Object(members, { title, additionalProperties: false });
}

const text = (description: string, example?: string) =>
  storedString({
    minLength: 1,
    maxLength: 4096,
    description,
    ...(example === undefined ? {} : { examples: [example] }),
  });
const optionalText = (description: string, example?: string) => Type.Optional(text(description, example));

const address = (description: string, example: string) =>
  Type.String({ format: 'uri', maxLength: 2048, description, examples: [example] });
const webAddress = (description: string, example: string) =>
  Type.String({
    format: 'uri',
    pattern: '^[Hh][Tt][Tt][Pp][Ss]?://',
    maxLength: 2048,
    'x-problem': 'must be an address that begins with https:// or http://',
    description,
    examples: [example],
  });

const appId = text('The id of the Slack app: that of the integration or of the server.', 'A012ABCD0A0');
const redirectUrl = Type.Optional(
  address(
    'The address to which Slack sends the user back. The Slack app must list it.',
    'https://app.example.com/slack',
  ),
);

export const StartInstallation = part('InstallationStartInput', {
  app_id: appId,
  auth_url: Type.Optional(
    webAddress(
      'Returned instead of the address of Slack, with the same query.',
      'https://slack.example.com/authorize',
    ),
  ),
  extra_scopes: Type.Optional(
    Type.Array(
      Type.String({
        pattern: '^[a-z][a-z0-9_.:-]*$',
        maxLength: 100,
        'x-problem': 'must be a scope of Slack, such as channels:read',
        examples: ['channels:read'],
      }),
      { maxItems: 100, description: 'Scopes that the app needs besides posting.' },
    ),
  ),
  redirect_url: redirectUrl,
});
export type StartInstallation = Static<typeof StartInstallation>;

export const StartedInstallation = Type.Object(
  {
    app_id: Type.String({ examples: ['A012ABCD0A0'] }),
    auth_url: Type.String({
      description: 'The address to which your app sends the user. Its `state` comes back with the `code`.',
      examples: [
        'https://slack.com/oauth/v2/authorize?client_id=1234567890.1234567890&scope=chat%3Awrite&state=…',
      ],
    }),
    scopes: Type.Array(Type.String(), { examples: [['chat:write', 'incoming-webhook']] }),
  },
  { title: 'InstallationStart' },
);
export type StartedInstallation = Static<typeof StartedInstallation>;

export const FinishInstallation = part('InstallationFinishInput', {
  app_id: appId,
  code: text(
    'The `code` of the query with which Slack sent the user back.',
    '1234567890.1234567890.0a1b2c3d',
  ),
  redirect_url: redirectUrl,
  state: Type.Optional(
    storedString({
      maxLength: 2048,
      description:
        'The `state` of the same query. It must belong to an installation that this user started within ' +
        'the last hour, so that another person cannot connect a foreign workspace.',
    }),
  ),
});
export type FinishInstallation = Static<typeof FinishInstallation>;

const seconds = (description: string) =>
  Type.Integer({ minimum: 0, maximum: 3_153_600_000, description, examples: [43_200] });
const flat = (description: string) => Type.Optional(nullable(storedString({ maxLength: 255, description })));

/** A Slack app in a workspace. */
export const SlackInstallation = part('SlackInstallation', {
  id: Type.Optional(
    Type.String({
      format: 'text',
      maxLength: 255,
      pattern: '^[A-Z0-9]+-.*$',
      description:
        '`<app_id>-<team_id>`, or `<app_id>-<enterprise_id>` for a whole organisation. Belfry fills it in ' +
        'if omitted.',
      examples: ['A012ABCD0A0-T9TK3CUKW'],
    }),
  ),
  access_token: text('The token of the bot.', 'xoxb-0123456789-abcdef'),
  app_id: appId,
  authed_user: part('SlackInstallationUser', {
    id: text('The Slack user who installed the app.', 'U1234'),
    access_token: optionalText('The token of the user.'),
    refresh_token: optionalText('Renews the token of the user.'),
    token_type: optionalText('The kind of the token.', 'user'),
    scope: optionalText('The scopes of the token of the user.', 'chat:write'),
    expires_in: Type.Optional(seconds('Seconds until the token of the user expires.')),
  }),
  bot_user_id: optionalText('The Slack user as which the app posts.', 'U0KRQLJ9H'),
  enterprise: Type.Optional(
    part('SlackInstallationEnterprise', {
      id: text('The organisation.', 'E12345678'),
      name: text('Its name.'),
    }),
  ),
  expires_in: Type.Optional(seconds('Seconds until the token of the bot expires.')),
  incoming_webhook: Type.Optional(
    part('SlackInstallationWebhook', {
      url: text(
        'The address at which messages are posted.',
        'https://hooks.slack.com/services/T9TK3CUKW/B0LJ2KD5H/x1y2z3',
      ),
      channel: text('The name of the channel.', '#general'),
      channel_id: optionalText('The id of the channel.', 'C024BE91L'),
      configuration_url: text(
        'The page where it is configured.',
        'https://example.slack.com/services/B0LJ2KD5H',
      ),
    }),
  ),
  is_enterprise_install: Type.Optional(
    Type.Boolean({ description: 'Whether the app is installed in a whole organisation.' }),
  ),
  refresh_token: optionalText('Renews the token of the bot, once.'),
  scope: optionalText('The scopes of the token of the bot.', 'chat:write,incoming-webhook'),
  team: part('SlackInstallationTeam', {
    id: text('The workspace.', 'T9TK3CUKW'),
    name: optionalText('Its name.', 'Example'),
  }),
  token_type: optionalText('The kind of the token.', 'bot'),
  team_id: flat('The same as `team.id`.'),
  team_name: flat('The same as `team.name`.'),
  enterprise_id: flat('The same as `enterprise.id`.'),
  enterprise_name: flat('The same as `enterprise.name`.'),
});
export type SlackInstallation = Static<typeof SlackInstallation>;

export const StartedWebPush = Type.Object(
  {
    auth_token: Type.String({
      minLength: 8,
      description:
        'A User JWT of the same user for the page or worker that saves the subscription. It is valid for ' +
        'at most an hour.',
      examples: ['eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.c2lnbmF0dXJl'],
    }),
    public_key: Type.String({
      minLength: 8,
      maxLength: 128,
      description:
        'The public VAPID key of the project in base64url: `applicationServerKey` of ' +
        '`pushManager.subscribe`.',
      examples: ['BDd3_hVL9fZi9Ybo2UUzA284WG5FZR30_95YeZJsiApwXKpNcF1rRPF3foIiBHXRdJI2Qhumhf6_LFTeZaNndIo'],
    }),
  },
  { title: 'WebPushInstallationStart' },
);
