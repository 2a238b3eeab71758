/**
 * The JWT that authenticates us to APNs:
 * https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
 */
import { createHash, type KeyObject } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../lib/cache-limit.ts';
import type { Clock } from '../../lib/clock.ts';
import { signJwt } from '../../lib/jwt.ts';
import { privateKey } from '../shared/private-key.ts';

/** The provider token of one team and one key. */
export type ProviderToken = {
  /** The token to send with now. */
  current(): Promise<string>;
  /** A newer token than this, which APNs rejected as too old; undefined if it is too soon to change it. */
  insteadOf(rejected: string): Promise<string> | undefined;
  /** The last token that was signed; empty before the first. */
  latest(): string;
};

type Credentials = { team_id: string; key_id: string; certificate: string };

const MINUTE_SECONDS = 60;
/**
 * APNs takes tokens of up to an hour, and minds when they change more often than every 20 minutes. So they
 * are dated by a grid, on which all senders and all processes agree without asking one another.
 */
const GRID_SECONDS = 40 * MINUTE_SECONDS;
/**
 * A token is used when it is this old already: to APNs, whose clock is another, it must not come from the
 * future.
 */
const YOUNGEST_SECONDS = 5 * MINUTE_SECONDS;
const SOONEST_SECONDS = 20 * MINUTE_SECONDS;

/** Keyed by an object that lives as long as the server. */
const shared = new WeakMap<object, LRUCache<string, ProviderToken>>();

/**
 * The one token that everyone who gives the same `owner` uses for these credentials; undefined if the
 * certificate is no key of APNs.
 */
export function providerToken(
  credentials: Credentials,
  { clock, owner }: { clock: Clock; owner: object },
): ProviderToken | undefined {
  const { team_id, key_id, certificate } = credentials;
  const tokens = shared.get(owner) ?? new LRUCache<string, ProviderToken>(cacheLimit(10_000));
  shared.set(owner, tokens);
  const name = createHash('sha256').update(`${team_id} ${key_id} ${certificate}`).digest('base64');
  const known = tokens.get(name);
  if (known !== undefined) return known;
  const key = privateKey(certificate, 'p256');
  if (key === undefined) return undefined;
  const token = createProviderToken(credentials, key, clock);
  tokens.set(name, token);
  return token;
}

function createProviderToken({ team_id, key_id }: Credentials, key: KeyObject, clock: Clock): ProviderToken {
  let gridStart = 0; // one for all, until APNs finds a token too old
  let last: { issuedAt: number; jwt: Promise<string> } | undefined;
  let latest = '';

  function issued(at: number): { issuedAt: number; jwt: Promise<string> } {
    if (last?.issuedAt !== at) last = { issuedAt: at, jwt: sign(at) };
    return last;
  }

  async function sign(iat: number): Promise<string> {
    latest = '';
    latest = await signJwt({ iss: team_id, iat }, key, { alg: 'ES256', kid: key_id });
    return latest;
  }

  function now(): { issuedAt: number; jwt: Promise<string> } {
    const age = Math.floor(clock.now() / 1000) - YOUNGEST_SECONDS - gridStart;
    return issued(gridStart + Math.max(0, Math.floor(age / GRID_SECONDS)) * GRID_SECONDS);
  }

  function insteadOf(rejected: string): Promise<string> | undefined {
    const { issuedAt, jwt } = now();
    if (latest !== rejected) return jwt; // another request has renewed it, or is about to
    const nowSeconds = Math.floor(clock.now() / 1000);
    if (nowSeconds - issuedAt < SOONEST_SECONDS) return undefined;
    gridStart = nowSeconds; // a grid of its own from here on, so that the next one does not come too soon
    return issued(nowSeconds).jwt;
  }

  return { current: () => now().jwt, insteadOf, latest: () => latest };
}
