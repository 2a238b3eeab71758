import { type Static, type TProperties, Type } from 'typebox';
import { nullable, storedString } from './common.ts';

/** What is inside an installation: nothing but these members. */
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

const appId = text("The id of the Slack app: the integration's, or the server's own.", 'A012ABCD0A0');
const redirectUrl = Type.Optional(
  address('Where Slack sends the user back to; one of those of the app.', 'https://app.example.com/slack'),
);

export const StartInstallation = part('InstallationStartInput', {
  app_id: appId,
  auth_url: Type.Optional(
    webAddress(
      "Returned instead of Slack's own address, with the same query.",
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
      { maxItems: 100, description: 'What the app may do besides posting.' },
    ),
  ),
  redirect_url: redirectUrl,
});
export type StartInstallation = Static<typeof StartInstallation>;

export const StartedInstallation = Type.Object(
  {
    app_id: Type.String({ examples: ['A012ABCD0A0'] }),
    auth_url: Type.String({
      description: 'Where to send the user. Its `state` comes back beside the `code`.',
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
  code: text('From the query that Slack sent the user back with.', '1234567890.1234567890.0a1b2c3d'),
  redirect_url: redirectUrl,
  state: Type.Optional(
    storedString({
      maxLength: 2048,
      description:
        'The `state` of the same query. When it is given, it has to be from an installation that this user has started within the hour: ' +
        'nobody can slip the user a workspace of their own then.',
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
        '`<app_id>-<team_id>`, which is what it is if not given; of a whole organisation `<app_id>-<enterprise_id>`.',
      examples: ['A012ABCD0A0-T9TK3CUKW'],
    }),
  ),
  access_token: text("The bot's token.", 'xoxb-0123456789-abcdef'),
  app_id: appId,
  authed_user: part('SlackInstallationUser', {
    id: text('Who installed the app.', 'U1234'),
    access_token: optionalText("The user's own token."),
    refresh_token: optionalText("What renews the user's token."),
    token_type: optionalText('The kind of the token.', 'user'),
    scope: optionalText("What the user's token permits.", 'chat:write'),
    expires_in: Type.Optional(seconds("Until the user's token runs out.")),
  }),
  bot_user_id: optionalText('The user that the app posts as.', 'U0KRQLJ9H'),
  enterprise: Type.Optional(
    part('SlackInstallationEnterprise', {
      id: text('The organisation.', 'E12345678'),
      name: text('Its name.'),
    }),
  ),
  expires_in: Type.Optional(seconds("Until the bot's token runs out, from now.")),
  incoming_webhook: Type.Optional(
    part('SlackInstallationWebhook', {
      url: text(
        'Where the channel is posted to.',
        'https://hooks.slack.com/services/T9TK3CUKW/B0LJ2KD5H/x1y2z3',
      ),
      channel: text('The name of the channel.', '#general'),
      channel_id: optionalText('The id of the channel.', 'C024BE91L'),
      configuration_url: text('Where it is configured.', 'https://example.slack.com/services/B0LJ2KD5H'),
    }),
  ),
  is_enterprise_install: Type.Optional(
    Type.Boolean({ description: 'Whether it is of a whole organisation.' }),
  ),
  refresh_token: optionalText("What renews the bot's token; good for one time."),
  scope: optionalText("What the bot's token permits.", 'chat:write,incoming-webhook'),
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
        'A User JWT of the same user that is good for an hour at most, for a page or worker that is to save the subscription.',
      examples: ['eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.c2lnbmF0dXJl'],
    }),
    public_key: Type.String({
      minLength: 8,
      maxLength: 128,
      description:
        "The project's public VAPID key in base64url: the `applicationServerKey` of `pushManager.subscribe`.",
      examples: ['BDd3_hVL9fZi9Ybo2UUzA284WG5FZR30_95YeZJsiApwXKpNcF1rRPF3foIiBHXRdJI2Qhumhf6_LFTeZaNndIo'],
    }),
  },
  { title: 'WebPushInstallationStart' },
);
