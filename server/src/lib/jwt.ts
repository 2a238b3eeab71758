import { isUtf8 } from 'node:buffer';
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';

export type Claims = Readonly<Record<string, unknown>>;

/** A token taken apart. Nothing in it may be believed before `verifyJwt` said so. */
export interface DecodedJwt {
  readonly algorithm: string;
  readonly claims: Claims;
  readonly signedText: string;
  readonly signature: string;
}

export type JwtVerdict =
  | { ok: true; claims: Claims }
  /** With the claims that have no usable value, where that is why. */
  | { ok: false; reason: 'unparsable'; claims?: string[] }
  | { ok: false; reason: 'signature' | 'expired' | 'not_yet_valid' };

// Ours have about 300 characters. The bound keeps a hostile header from costing more than a few microseconds.
const MAX_CHARACTERS = 8192;
// For `nbf` and `iat`: a token made just now on a machine whose clock is ahead has to work. `exp` has no
// leeway: no token lives longer than its maker said.
const LEEWAY_MS = 30_000;

const HEADER = Buffer.from('{"alg":"HS256","typ":"JWT"}').toString('base64url');
const BARE_HEADER = Buffer.from('{"alg":"HS256"}').toString('base64url');
const BASE64URL = /^[A-Za-z0-9_-]+$/;

/** A JWT (HS256) with these claims. */
export function signJwt(claims: Claims, key: KeyObject): string {
  const text = `${HEADER}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
  return `${text}.${signatureOf(text, key)}`;
}

/**
 * Whether a token was signed with `key` (HS256 and nothing else) and is valid at `nowMs`; a value, never an
 * exception.
 */
export function verifyJwt(token: string, key: KeyObject, nowMs: number): JwtVerdict {
  const decoded = decodeJwt(token);
  return decoded === undefined ? { ok: false, reason: 'unparsable' } : verifyDecoded(decoded, key, nowMs);
}

/** `verifyJwt` for a token that `decodeJwt` took apart already, in order to find its key. */
export function verifyDecoded(
  { algorithm, claims, signedText, signature }: DecodedJwt,
  key: KeyObject,
  nowMs: number,
): JwtVerdict {
  // Comparing the text of the signature, not its bytes, also refuses spellings of the same bytes that are not
  // canonical.
  if (algorithm !== 'HS256' || !equal(signature, signatureOf(signedText, key)))
    return { ok: false, reason: 'signature' };
  const { exp, nbf, iat } = claims;
  if (!isTime(exp) || !isTime(nbf) || !isTime(iat)) {
    const unusable = Object.entries({ exp, nbf, iat }).filter(([, value]) => !isTime(value));
    return { ok: false, reason: 'unparsable', claims: unusable.map(([name]) => name) };
  }
  if (exp !== undefined && exp * 1000 <= nowMs) return { ok: false, reason: 'expired' };
  const latestStart = Math.max(nbf ?? 0, iat ?? 0) * 1000;
  if (latestStart > nowMs + LEEWAY_MS) return { ok: false, reason: 'not_yet_valid' };
  return { ok: true, claims };
}

/** The parts of a JWT, or `undefined` if it is none. */
export function decodeJwt(token: string): DecodedJwt | undefined {
  if (token.length > MAX_CHARACTERS) return undefined;
  const firstDot = token.indexOf('.');
  const secondDot = token.indexOf('.', firstDot + 1);
  if (firstDot <= 0 || secondDot < 0) return undefined;
  const algorithm = algorithmOf(token.slice(0, firstDot));
  const claims = jsonObject(token.slice(firstDot + 1, secondDot));
  const signature = token.slice(secondDot + 1); // empty with `alg: none`: decodable, and refused for it
  if (algorithm === undefined || claims === undefined || !/^[A-Za-z0-9_-]*$/.test(signature))
    return undefined;
  return { algorithm, claims, signedText: token.slice(0, secondDot), signature };
}

/**
 * The algorithm a header names; `undefined` if there is none, or if the header demands something we do not
 * know (`crit`).
 */
function algorithmOf(header: string): string | undefined {
  if (header === HEADER || header === BARE_HEADER) return 'HS256';
  const { alg, crit } = jsonObject(header) ?? {};
  return typeof alg === 'string' && crit === undefined ? alg : undefined;
}

function jsonObject(base64url: string): Claims | undefined {
  if (!BASE64URL.test(base64url) || base64url.length % 4 === 1) return undefined;
  const bytes = Buffer.from(base64url, 'base64url');
  if (!isUtf8(bytes)) return undefined;
  try {
    const value: unknown = JSON.parse(bytes.toString());
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Claims)
      : undefined;
  } catch {
    return undefined; // not JSON, so not a JWT: that is the answer
  }
}

function isTime(value: unknown): value is number | undefined {
  return value === undefined || (typeof value === 'number' && Number.isFinite(value));
}

function signatureOf(text: string, key: KeyObject): string {
  return createHmac('sha256', key).update(text).digest('base64url');
}

function equal(given: string, expected: string): boolean {
  if (given.length !== expected.length) return false;
  return timingSafeEqual(Buffer.from(given, 'latin1'), Buffer.from(expected, 'latin1'));
}
