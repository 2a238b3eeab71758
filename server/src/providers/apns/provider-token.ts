/**
 * The JWT that authenticates requests to APNs:
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
  /** Returns the token to send with now. */
  current(): Promise<string>;
  /**
   * Returns a newer token than this one, which APNs rejected as expired; undefined if it is too soon for one.
   */
  renew(rejected: string): Promise<string> | undefined;
  /** Returns the token that was signed last; empty before the first. */
  latest(): string;
};

type Credentials = { team_id: string; key_id: string; certificate: string };

const MINUTE_SECONDS = 60;
/**
 * APNs accepts tokens for up to an hour, and rejects more than one change in 20 minutes. Issue times are
 * therefore multiples of this, so that all senders and processes use the same token without coordination.
 */
const GRID_SECONDS = 40 * MINUTE_SECONDS;
/**
 * The minimum age of a token when it is first used: if the clock of APNs is behind, its issue time must not
 * be in the future.
 */
const YOUNGEST_SECONDS = 5 * MINUTE_SECONDS;
const SOONEST_SECONDS = 20 * MINUTE_SECONDS;

/** The tokens per owner: an object that lives as long as the server. */
const shared = new WeakMap<object, LRUCache<string, ProviderToken>>();

/**
 * Returns the token that all callers with the same `owner` share for these credentials; undefined if the
 * certificate is not an APNs signing key.
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
  let gridStart = 0; // the same in all processes, until APNs rejects a token as expired
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

  function renew(rejected: string): Promise<string> | undefined {
    const { issuedAt, jwt } = now();
    if (latest !== rejected) return jwt; // another request has renewed it or is renewing it
    const nowSeconds = Math.floor(clock.now() / 1000);
    if (nowSeconds - issuedAt < SOONEST_SECONDS) return undefined;
    gridStart = nowSeconds; // counted from here, so that the next renewal is not too soon
    return issued(nowSeconds).jwt;
  }

  return { current: () => now().jwt, renew, latest: () => latest };
}
