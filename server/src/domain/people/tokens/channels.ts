import { createHash } from 'node:crypto';
import type {
  SaveApnsToken,
  SaveChatToken,
  SaveExpoToken,
  SaveFcmToken,
  SaveInboxToken,
  SaveTeamsToken,
  SaveWebPushToken,
} from '../../../contract/token.ts';
import { isId } from '../../../lib/ids.ts';

/** What distinguishes the tokens of a channel. */
export interface TokenChannel<Body> {
  /** As it stands in tokens.channel: the collection's path, with the brand as the contract spells it. */
  name: string;
  /**
   * A device has one owner at a time and moves to whoever saves it last; a chat destination may be shared by
   * users.
   */
  kind: 'device' | 'shared';
  identity(body: Body): Identity;
  /** The members that are stored and answered; those that are nullable as `null`. */
  stored(body: Body): Record<string, unknown>;
}

/**
 * What makes two tokens the same: a text, or the id that clients know the token by, where the token itself
 * makes that.
 */
export type Identity = { text: string } | { publicId: string };

export const inboxTokens: TokenChannel<SaveInboxToken> = {
  name: 'in_app/inbox',
  kind: 'device',
  identity: ({ token }) => ({ text: token }),
  stored: ({ token, connection_id }) => ({ token, connection_id: connection_id ?? null }),
};

export const apnsTokens: TokenChannel<SaveApnsToken> = mobilePush('apns');
export const expoTokens: TokenChannel<SaveExpoToken> = mobilePush('expo');
export const fcmTokens: TokenChannel<SaveFcmToken> = mobilePush('fcm');

export const slackTokens: TokenChannel<SaveChatToken> = chat('slack');
export const slackbotTokens: TokenChannel<SaveChatToken> = chat('slack/service_slackbot');

/** Without an address a token means the default destination of the project's integration. */
export const teamsTokens: TokenChannel<SaveTeamsToken> = {
  name: 'teams',
  kind: 'shared',
  identity: ({ webhook }) => ({ text: webhook?.url ?? '' }),
  stored: (body) => body,
};

export const webPushTokens: TokenChannel<SaveWebPushToken> = {
  name: 'web_push',
  kind: 'device',
  identity: ({ endpoint }) => ({ text: endpoint }),
  stored: ({ endpoint, keys }) => ({ endpoint, keys }),
};

/** What tokens.hash and token_owners.hash hold: tokens are looked up by it, of whatever length they are. */
export function tokenHash(identity: Identity): Buffer {
  // No text of a channel that has ids of its own begins like this: there they are addresses.
  const text = 'text' in identity ? identity.text : `id:${identity.publicId}`;
  return createHash('sha256').update(text).digest();
}

function mobilePush<Body extends { device_token: string }>(platform: string): TokenChannel<Body> {
  return {
    name: `mobile_push/${platform}`,
    kind: 'device',
    identity: ({ device_token }) => ({ text: device_token }),
    stored: (body) => body,
  };
}

function chat(name: string): TokenChannel<SaveChatToken> {
  return {
    name,
    kind: 'shared',
    identity({ oauth, webhook }) {
      if (oauth === undefined) return { text: webhook?.url ?? '' };
      const id = `${oauth.installation_id}-${oauth.channel_id}`;
      // Nothing of Slack's looks like one of our ids. What does gets one, so that an id never means two
      // tokens.
      return isId(id) ? { text: `oauth:${id}` } : { publicId: id };
    },
    stored: (body) => body,
  };
}
