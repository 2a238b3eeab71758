import {
  apnsTokens,
  expoTokens,
  fcmTokens,
  inboxTokens,
  slackbotTokens,
  slackTokens,
  type TokenChannel,
  teamsTokens,
  tokenHash,
  webPushTokens,
} from '../../server/src/domain/people/tokens/channels.ts';

const channel = <Body>(of: TokenChannel<Body>, body: (unique: string) => Body) => ({
  name: of.name,
  owned: of.kind === 'device',
  row(unique: string) {
    const made = body(unique);
    const identity = of.identity(made);
    const publicId = 'publicId' in identity ? identity.publicId : null;
    return { publicId, hash: tokenHash(identity), json: JSON.stringify(of.stored(made)) };
  },
});
const oauth = (id: string) => ({
  oauth: { channel_id: id, installation_id: 'A012ABCD0A0-T9TK3CUKW', scope: 'chat:write' },
});
/**
 * Every collection of tokens, and what is stored of a token that is told from others by a text of 32
 * characters and more.
 */
export const CHANNELS = [
  channel(inboxTokens, (id) => ({ token: id.repeat(2), connection_id: null })),
  channel(apnsTokens, (id) => ({ device_token: id.repeat(2) })),
  channel(expoTokens, (id) => ({ device_token: `ExponentPushToken[${id}]` })),
  channel(fcmTokens, (id) => ({ device_token: id.repeat(4) })),
  channel(slackTokens, oauth),
  channel(slackbotTokens, oauth),
  channel(teamsTokens, (id) => ({ webhook: { url: `https://example.com/workflows/${id}` } })),
  channel(webPushTokens, (id) => ({
    endpoint: `https://push.example.com/${id}`,
    keys: { auth: 'tBHItJI5svbpez7KI4CCXg', p256dh: `BLc4xRzKlKORKWlbdgFaBrrPK3ydWAH${id}` },
  })),
];
