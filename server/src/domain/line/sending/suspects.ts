import type { GoneToken } from '../../people/tokens/gone-token.ts';

// A wrong setting fails for every user. That ten different ones fail by their own fault, with no success in
// between, hardly happens.
const USERS_IN_A_ROW = 10;
// A user may hold a hundred tokens per channel, and each of them can be a bad one.
const MAX_TOKENS = 200;

/**
 * What an integration is suspected of: failures since its last success that a wrong setting can cause, but a
 * single recipient as well. They are counted by user. A user chooses their own numbers, addresses and
 * devices, and must not stop the messages to all others.
 */
export interface Suspects {
  readonly userIds: Set<string>;
  /** Tokens that the provider calls gone, but would also call gone if the config were wrong; by their ids. */
  readonly tokens: Map<string, GoneToken>;
}

export function noSuspects(): Suspects {
  return { userIds: new Set(), tokens: new Map() };
}

/**
 * Notes that a message to this user met such a failure. Returns `accused` if it is the config's fault: too
 * many users in a row, this one among them for the first time. Returns `repeated` if the user was noted
 * before, which says nothing new.
 */
export function suspect({ userIds, tokens }: Suspects, userId: string): 'noted' | 'repeated' | 'accused' {
  if (userIds.has(userId)) return 'repeated';
  userIds.add(userId);
  if (userIds.size < USERS_IN_A_ROW) return 'noted';
  tokens.clear(); // they may be good ones
  return 'accused';
}

/** Keeps a token until the integration has a success; each once, with what was last reported of it. */
export function keepAside({ tokens }: Suspects, gone: GoneToken): void {
  if (tokens.size < MAX_TOKENS || tokens.has(gone.tokenId)) tokens.set(gone.tokenId, gone);
}

/**
 * Returns the tokens that really are gone, after a success has shown that the config is right. Nothing is
 * suspected then.
 */
export function takeConvicted({ userIds, tokens }: Suspects): GoneToken[] {
  const gone = [...tokens.values()];
  tokens.clear();
  userIds.clear();
  return gone;
}
