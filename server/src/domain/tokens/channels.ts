import { createHash } from 'node:crypto';
import type { SaveInboxToken } from '../../contract/token.ts';

/** What distinguishes the tokens of a channel. */
export interface TokenChannel<Body> {
  /** As it stands in tokens.channel and in the paths: `in_app/inbox`. */
  name: string;
  /** A device has one owner at a time and moves to whoever saves it last; a chat destination may be shared by users. */
  kind: 'device' | 'shared';
  /** What makes two tokens the same. */
  identity(body: Body): string;
  /** The members that are stored and answered, nullable ones as `null`. */
  stored(body: Body): Record<string, unknown>;
}

export const inboxTokens: TokenChannel<SaveInboxToken> = {
  name: 'in_app/inbox',
  kind: 'device',
  identity: (body) => body.token,
  stored: ({ token, connection_id }) => ({ token, connection_id: connection_id ?? null }),
};

/** What tokens.hash and token_owners.hash hold: tokens are looked up by it, of whatever length they are. */
export function tokenHash(identity: string): Buffer {
  return createHash('sha256').update(identity).digest();
}
