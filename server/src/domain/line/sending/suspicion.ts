import type { GoneToken } from '../../people/tokens/gone-token.ts';

// A wrong setting fails for every user. That ten users in a row fail by their own fault hardly happens.
const USERS_IN_A_ROW = 10;
// A user may have a hundred tokens per channel, and each of them may be invalid.
const MAX_TOKENS = 200;

/**
 * Failures of an integration since its last success that either a wrong setting or a single recipient can
 * cause. They are counted by user: users choose their own numbers, addresses and devices, and must not stop
 * the messages to all others.
 */
export interface Suspicion {
  readonly userIds: Set<string>;
  /** Tokens by their ids that the provider reports as gone, as it would with a wrong config. */
  readonly tokens: Map<string, GoneToken>;
}

export function newSuspicion(): Suspicion {
  return { userIds: new Set(), tokens: new Map() };
}

/**
 * Adds a user whose message met such a failure. Returns `config_at_fault` if that makes too many users in a
 * row, and `repeated` if the user was counted before, which shows nothing new.
 */
export function addFailure(
  { userIds, tokens }: Suspicion,
  userId: string,
): 'counted' | 'repeated' | 'config_at_fault' {
  if (userIds.has(userId)) return 'repeated';
  userIds.add(userId);
  if (userIds.size < USERS_IN_A_ROW) return 'counted';
  tokens.clear(); // they may be valid
  return 'config_at_fault';
}

/** Keeps a token until the integration has a success; each once, with the last report of it. */
export function keepToken({ tokens }: Suspicion, gone: GoneToken): void {
  if (tokens.size < MAX_TOKENS || tokens.has(gone.tokenId)) tokens.set(gone.tokenId, gone);
}

/** A success has shown that the config is right. Returns the tokens to discard, and ends the suspicion. */
export function endSuspicion({ userIds, tokens }: Suspicion): GoneToken[] {
  const gone = [...tokens.values()];
  tokens.clear();
  userIds.clear();
  return gone;
}
