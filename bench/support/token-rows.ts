import { tokenHash } from '../../server/src/domain/people/tokens/token-hash.ts';
import { tokenCollection } from '../../server/src/providers/index.ts';
import type { TokenCollection, TokenMembers } from '../../server/src/providers/provider.ts';

const channel = (of: TokenCollection, body: (unique: string) => TokenMembers) => ({
  name: of.collection,
  owned: of.kind === 'device',
  row(unique: string) {
    const made = body(unique);
    const identity = of.identity(made);
    const publicId = 'publicId' in identity ? identity.publicId : null;
    return { publicId, hash: tokenHash(identity), json: JSON.stringify(of.stored?.(made) ?? made) };
  },
});
const oauth = (id: string) => ({
  oauth: { channel_id: id, installation_id: 'A012ABCD0A0-T9TK3CUKW', scope: 'chat:write' },
});
/**
 * Every collection of tokens, with the stored form of a token that a unique text of 32 or more characters
 * identifies.
 */
export const CHANNELS = [
  channel(tokenCollection('inbox'), (id) => ({ token: id.repeat(2), connection_id: null })),
  channel(tokenCollection('apns'), (id) => ({ device_token: id.repeat(2) })),
  channel(tokenCollection('expo'), (id) => ({ device_token: `ExponentPushToken[${id}]` })),
  channel(tokenCollection('fcm'), (id) => ({ device_token: id.repeat(4) })),
  channel(tokenCollection('slack'), oauth),
  channel(tokenCollection('slackbot'), oauth),
  channel(tokenCollection('teams'), (id) => ({ webhook: { url: `https://example.com/workflows/${id}` } })),
  channel(tokenCollection('web_push'), (id) => ({
    endpoint: `https://push.example.com/${id}`,
    keys: { auth: 'tBHItJI5svbpez7KI4CCXg', p256dh: `BLc4xRzKlKORKWlbdgFaBrrPK3ydWAH${id}` },
  })),
];
