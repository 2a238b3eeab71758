import type { KeyObject, webcrypto } from 'node:crypto';
import * as errors from 'jose/errors';
import { decodeJwt as joseDecode } from 'jose/jwt/decode';
import { SignJWT } from 'jose/jwt/sign';
import { jwtVerify } from 'jose/jwt/verify';

export type Claims = Readonly<Record<string, unknown>>;

export type JwtVerdict =
  | { ok: true; claims: Claims }
  /** `claims` are the names of claims without a usable value, if they are the reason. */
  | { ok: false; reason: 'unparsable'; claims?: string[] }
  | { ok: false; reason: 'signature' | 'expired' | 'not_yet_valid' };

// Our tokens have about 300 characters. The limit bounds the cost of a hostile header.
const MAX_CHARACTERS = 8192;
// For `nbf` and `iat`: a token works at once if the clock of its issuer is ahead. `exp` has no leeway.
const LEEWAY_SECONDS = 30;
const COMPACT_JWT = /^[\w-]+\.[\w-]+\.[\w-]*$/;

/** Signs a JWT, with HS256 unless the header names another algorithm. */
export function signJwt(
  claims: Claims,
  key: KeyObject,
  header: { alg: string; [name: string]: string } = { alg: 'HS256', typ: 'JWT' },
): Promise<string> {
  return new SignJWT(claims).setProtectedHeader(header).sign(key);
}

/** Returns the claims of a JWT without verifying it; undefined if the text is not a JWT. */
export function decodeJwt(token: string): Claims | undefined {
  if (token.length > MAX_CHARACTERS || !COMPACT_JWT.test(token)) return undefined;
  try {
    return joseDecode(token);
  } catch (error) {
    if (error instanceof errors.JWTInvalid) return undefined;
    throw error;
  }
}

/**
 * Verifies that a token was signed with `key` by HS256 and is valid at `nowMs`. Resolves for every text,
 * never rejects for an invalid one.
 */
export async function verifyJwt(token: string, key: KeyObject, nowMs: number): Promise<JwtVerdict> {
  if (decodeJwt(token) === undefined) return { ok: false, reason: 'unparsable' };
  const options = {
    algorithms: ['HS256'],
    currentDate: new Date(nowMs),
    clockTolerance: LEEWAY_SECONDS,
  };
  try {
    const { payload } = await jwtVerify(token, verificationKey(key), options);
    return isCanonical(token) ? verdictOf(payload, nowMs) : { ok: false, reason: 'signature' };
  } catch (error) {
    return verdictOfError(error);
  }
}

const verificationKeys = new WeakMap<KeyObject, webcrypto.CryptoKey>();

/** The key in the form that jose verifies with. It would import another one for each token. */
function verificationKey(key: KeyObject): webcrypto.CryptoKey {
  const known = verificationKeys.get(key);
  if (known !== undefined) return known;
  const made = key.toCryptoKey({ name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
  verificationKeys.set(key, made);
  return made;
}

function verdictOfError(error: unknown): JwtVerdict {
  if (error instanceof errors.JWTExpired) return { ok: false, reason: 'expired' };
  if (error instanceof errors.JWTClaimValidationFailed) {
    return error.reason === 'invalid'
      ? { ok: false, reason: 'unparsable', claims: unusableTimes(error.payload) }
      : { ok: false, reason: 'not_yet_valid' };
  }
  if (error instanceof errors.JWSSignatureVerificationFailed || error instanceof errors.JOSEAlgNotAllowed)
    return { ok: false, reason: 'signature' };
  if (error instanceof errors.JOSEError) return { ok: false, reason: 'unparsable' };
  throw error;
}

/** Checks what jose does not: infinite times, an `iat` in the future, and an `exp` within the leeway. */
function verdictOf(claims: Claims, nowMs: number): JwtVerdict {
  const unusable = unusableTimes(claims);
  if (unusable.length > 0) return { ok: false, reason: 'unparsable', claims: unusable };
  const { exp, iat } = claims as { exp?: number; iat?: number };
  if (exp !== undefined && exp * 1000 <= nowMs) return { ok: false, reason: 'expired' };
  if (iat !== undefined && iat > nowMs / 1000 + LEEWAY_SECONDS) return { ok: false, reason: 'not_yet_valid' };
  return { ok: true, claims };
}

function unusableTimes(claims: Claims): string[] {
  return ['exp', 'nbf', 'iat'].filter((name) => claims[name] !== undefined && !Number.isFinite(claims[name]));
}

/** Whether the signature is in canonical base64url: its unused trailing bits are zero. */
function isCanonical(token: string): boolean {
  const signature = token.slice(token.lastIndexOf('.') + 1);
  return Buffer.from(signature, 'base64url').toString('base64url') === signature;
}
