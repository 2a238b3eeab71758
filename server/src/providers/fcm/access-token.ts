/**
 * Access tokens of a service account: https://developers.google.com/identity/protocols/oauth2/service-account
 */
import type { KeyObject } from 'node:crypto';
import { isIP } from 'node:net';
import type { Clock } from '../../lib/clock.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import { signJwt } from '../../lib/jwt.ts';
import type { HttpRequest, HttpResult, Transport } from '../shared/transport.ts';
import { parseObject } from '../shared/vendor-text.ts';

type ServiceAccount = { client_email: string; private_key_id: string; token_uri: string };

/** The cached access token of a service account. */
export type AccessToken = {
  /** Returns the token if it is valid for another five minutes. */
  current(): string | undefined;
  /**
   * Resolves with the token, or with Google's response if it contains none. Concurrent callers share one
   * request.
   */
  get(): Promise<string | HttpResult>;
  /** Discards this token, because FCM rejected it. */
  refused(token: string): void;
  /** Returns the token that was fetched last; empty before the first. */
  latest(): string;
};

const SCOPE = 'https://www.googleapis.com/auth/firebase.messaging';
const LIFETIME_SECONDS = 3600; // the maximum that Google accepts
// Google rejects an assertion that was signed in its future.
const CLOCK_ERROR_SECONDS = 30;
const RENEWED_BEFORE_MS = 5 * 60_000;

/** Creates the cache. It fetches a token on the first `get`. */
export function createAccessToken(
  account: ServiceAccount,
  { key, transport, clock }: { key: KeyObject; transport: Transport; clock: Clock },
): AccessToken {
  const endpoint = transport.at(account.token_uri);
  let known: { token: string; untilMs: number } | undefined;
  let latest = '';
  let fetching: Promise<string | HttpResult> | undefined;

  async function fetched(): Promise<string | HttpResult> {
    const nowMs = clock.now();
    const problem = problemOf(account.token_uri);
    const response =
      problem === undefined
        ? await endpoint.request(await tokenRequest(account, key, nowMs))
        : refusal(problem);
    const found = tokenIn(response);
    if (found === undefined) return known !== undefined && nowMs < known.untilMs ? known.token : response;
    known = { token: found.token, untilMs: nowMs + found.lifetimeMs };
    latest = found.token;
    return latest;
  }

  const current = () =>
    known !== undefined && clock.now() < known.untilMs - RENEWED_BEFORE_MS ? known.token : undefined;

  return {
    current,
    async get() {
      const token = current();
      if (token !== undefined) return token;
      fetching ??= fetched().finally(() => {
        fetching = undefined;
      });
      return fetching;
    },
    refused(token) {
      if (known?.token === token) known = undefined;
    },
    latest: () => latest,
  };
}

/** Returns the request for a token, with an assertion signed by the account's key. */
export async function tokenRequest(
  account: ServiceAccount,
  key: KeyObject,
  nowMs: number,
): Promise<HttpRequest> {
  const iat = Math.floor(nowMs / 1000) - CLOCK_ERROR_SECONDS;
  const { client_email: iss, private_key_id: kid, token_uri: aud } = account;
  const claims = { iss, scope: SCOPE, aud, iat, exp: iat + LIFETIME_SECONDS };
  const assertion = await signJwt(claims, key, { alg: 'RS256', typ: 'JWT', kid });
  return {
    method: 'POST',
    path: '',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion,
    }).toString(),
  };
}

/**
 * Returns why `token_uri` must not be called; undefined if it may. Allowed are Google's addresses, and
 * internal IP addresses: those are reachable only if the operator opened them (`EGRESS_ALLOW`). No other
 * server may receive an assertion signed with the key of the service account.
 */
export function problemOf(tokenUri: string): string | undefined {
  const url = URL.parse(tokenUri);
  if (url === null) return undefined; // the transport reports it
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const isGoogle = url.protocol === 'https:' && /(?:^|\.)googleapis\.com$/.test(host);
  const isInternal = isIP(host) !== 0 && NOTHING_OPENED.check(host) !== undefined;
  return isGoogle || isInternal ? undefined : 'is not a Google address (https://….googleapis.com)';
}

const NOTHING_OPENED = createEgressGuard();

function refusal(problem: string): HttpResult {
  return { error: { code: 'ERR_INVALID_URL', message: `token_uri ${problem}` }, written: false };
}

function tokenIn(response: HttpResult): { token: string; lifetimeMs: number } | undefined {
  if ('error' in response || response.status !== 200) return undefined;
  const { access_token: token, expires_in: seconds } = parseObject(response.text) as Record<string, unknown>;
  if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token)) return undefined;
  const lifetime = typeof seconds === 'number' && seconds > 0 ? seconds : LIFETIME_SECONDS;
  return { token, lifetimeMs: Math.min(lifetime, LIFETIME_SECONDS) * 1000 };
}
