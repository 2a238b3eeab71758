import { type Static, type TProperties, Type } from 'typebox';
import { appId } from './app-id.ts';
import { described, given, Id, nullable, oneOf, pageQuery, storedString, Timestamp } from './common.ts';

/** The members that every stored token has beside its own. */
const record = {
  created_at: Timestamp,
  updated_at: nullable(Timestamp),
  discarded_at: nullable(Timestamp),
};

/** The three forms of a token: as it is saved, as saving answers it, and its record. */
function forms<Members extends TProperties, Saved extends TProperties>(
  name: string,
  { save, saved, id = Id }: { save: Members; saved: Saved; id?: typeof Id },
  rules: object = {},
) {
  return {
    save: Type.Object(save, { title: `${name}Input`, additionalProperties: false, ...rules }),
    saved: Type.Object(saved, { title: `Saved${name}` }),
    token: Type.Object({ id, ...saved, ...record }, { title: name }),
  };
}

/** What is inside a token: nothing but these members. */
function part<Members extends TProperties>(title: string, members: Members) {
  return Type.Object(members, { title, additionalProperties: false });
}

// Longer than any that is in use; a limit, so that what is looked up and sent stays of a size.
const MAX_TOKEN = 4096;

/**
 * The address of somebody else's server. Private ones are rejected by the route, and again when it is used:
 * names change what they mean.
 */
const serverAddress = (description: string, example: string) =>
  Type.String({
    format: 'uri',
    pattern: '^[Hh][Tt][Tt][Pp][Ss]?://',
    minLength: 1,
    maxLength: 2048,
    'x-problem': 'must be an address that begins with https:// or http://',
    description,
    examples: [example],
  });

const inbox = {
  token: storedString({
    minLength: 64,
    maxLength: MAX_TOKEN,
    description: 'A random text of your making; whoever has it can open the realtime connection.',
    examples: ['q3ZtV9cKp1mXw7RbY5nJd0LhUf8TgE2sAvC6oIiNxMyDkPzQrWjBlGuHeFtSaO4R'],
  }),
};

export const inboxToken = forms('InboxToken', {
  save: {
    ...inbox,
    connection_id: Type.Optional(
      nullable(
        storedString({ maxLength: 255, description: 'Restricts delivery to this one realtime connection.' }),
      ),
    ),
  },
  saved: { ...inbox, connection_id: nullable(Type.String()) },
});
export type SaveInboxToken = Static<typeof inboxToken.save>;

const deviceToken = (minLength: number, description: string, example: string) => ({
  device_token: storedString({ minLength, maxLength: MAX_TOKEN, description, examples: [example] }),
});

const apns = {
  ...deviceToken(
    64,
    "The device's token in hexadecimal, as iOS gives it to the app.",
    '8d4b3f0a6c2e19757fb0d1c4a2e86935bb1f7c0d4e2a9866135fd07ce9a1b2c3',
  ),
  app_id: Type.Optional(appId("The app's bundle identifier, where it is not the integration's.")),
  installation_id: Type.Optional(
    oneOf(['development', 'production'], {
      description: "Which of Apple's servers knows the token; production if not given.",
    }),
  ),
};
export const apnsToken = forms('ApnsToken', { save: apns, saved: apns });
export type SaveApnsToken = Static<typeof apnsToken.save>;

const expo = deviceToken(1, "The device's Expo push token.", 'ExponentPushToken[xUQ3J0BB8f1pHXz5iYhVQo]');
export const expoToken = forms('ExpoToken', { save: expo, saved: expo });
export type SaveExpoToken = Static<typeof expoToken.save>;

const fcm = deviceToken(
  64,
  "The app's FCM registration token.",
  'dQw4w9WgXcQ:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx6l1nY7vQK0pD2sEw3tLm5oZ8cRjT',
);
export const fcmToken = forms('FcmToken', { save: fcm, saved: fcm });
export type SaveFcmToken = Static<typeof fcmToken.save>;

const slackId = (description: string, example: string) =>
  storedString({ minLength: 1, maxLength: 255, description, examples: [example] });

const chat = {
  oauth: Type.Optional(
    part('ChatTokenOauth', {
      channel_id: slackId('The channel or user to post to.', 'C024BE91L'),
      installation_id: slackId(
        'The installation of the Slack app: `<app_id>-<team_id>`.',
        'A012ABCD0A0-T9TK3CUKW',
      ),
      scope: Type.Optional(
        storedString({
          maxLength: 4096,
          description: 'What the installation permits.',
          examples: ['chat:write'],
        }),
      ),
    }),
  ),
  webhook: Type.Optional(
    part('ChatTokenWebhook', {
      url: serverAddress(
        "The address of the incoming webhook, from Slack's answer to the installation.",
        'https://hooks.slack.com/services/T9TK3CUKW/B0LJ2KD5H/x1y2z3',
      ),
    }),
  ),
};
const ChatTokenId = Type.String({
  description: 'Of a token with `oauth`: `<installation_id>-<channel_id>`.',
  examples: ['A012ABCD0A0-T9TK3CUKW-C024BE91L'],
});
export const chatToken = forms(
  'ChatToken',
  { save: chat, saved: chat, id: ChatTokenId },
  { anyOf: [given('oauth'), given('webhook')], 'x-problem': 'must have oauth or webhook' },
);
export type SaveChatToken = Static<typeof chatToken.save>;

const teams = {
  webhook: Type.Optional(
    part('TeamsTokenWebhook', {
      url: Type.Optional(
        serverAddress(
          'The address that the workflow of a Teams channel gave. Without one: the default of the integration.',
          'https://prod-01.westeurope.logic.azure.com/workflows/1a2b3c/triggers/manual/paths/invoke?sig=x1y2z3',
        ),
      ),
    }),
  ),
};
export const teamsToken = forms('TeamsToken', { save: teams, saved: teams });
export type SaveTeamsToken = Static<typeof teamsToken.save>;

const key = (description: string, example: string) =>
  storedString({ minLength: 1, maxLength: 255, description, examples: [example] });

const webPush = {
  endpoint: serverAddress(
    'The address of the subscription, as the browser gives it.',
    'https://updates.push.services.mozilla.com/wpush/v2/gAAAAABn',
  ),
  keys: part('WebPushKeys', {
    auth: key("The subscription's secret, in base64url.", 'tBHItJI5svbpez7KI4CCXg'),
    p256dh: key(
      "The subscription's public key, in base64url.",
      'BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1XbjhazAkj7I99e8QcYP7DkM',
    ),
  }),
};
export const webPushToken = forms('WebPushToken', {
  save: {
    ...webPush,
    // Every PushSubscription.toJSON() has it.
    expirationTime: Type.Optional(
      nullable(Type.Number({ description: 'As the browser gives it; it is ignored.' })),
    ),
  },
  saved: webPush,
});
export type SaveWebPushToken = Static<typeof webPushToken.save>;

/** The path of a token. */
export const TokenId = Type.Object({ token_id: described(Id, 'The id of the token.') });
/** The path of a token whose id is not always a UUID. */
export const ChatTokenIdInPath = Type.Object({
  token_id: storedString({ minLength: 1, description: 'The id of the token, as in the list.' }),
});

const chatCursor = (cursor: object) =>
  Type.Optional(Type.Unsafe<string | null>({ ...cursor, format: 'text', maxLength: 511 }));

/** The query of a list whose ids are not all UUIDs. */
export const ChatTokenPageQuery = Type.Object({
  limit: pageQuery.limit,
  starting_after: chatCursor(pageQuery.starting_after),
  ending_before: chatCursor(pageQuery.ending_before),
});

/** The part of a path that names a user. */
export const UserInPath = Type.Object({ user_id: described(Id, 'The id of the user.') });

export const DiscardResult = Type.Object(
  { id: Type.String(), discarded_at: Timestamp },
  { title: 'DiscardedToken' },
);
