/** Authenticates the server to push services: https://www.rfc-editor.org/rfc/rfc8292 */
import { createECDH, createPrivateKey, type KeyObject } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../lib/clock.ts';
import { signJwt } from '../../lib/jwt.ts';

/** A key pair in base64url, as in the config. */
export type VapidKeys = { public_key: string; private_key: string };

// The standard permits 24 hours by the clock of the push service, which may be slow.
const LIFETIME_SECONDS = 18 * 3600;
const USED_FOR_MS = 12 * 3_600_000;
// Users' subscriptions determine the origins. Real push services are few, but subscriptions may name any.
const MAX_ORIGINS = 200;

/**
 * Returns a function that returns the `Authorization` header for a push service's origin. A signature is
 * reused for 12 hours, because signing takes a third of the time of encrypting. `contact` is the address for
 * problems; Apple requires one.
 */
export function createVapid(
  { key, publicKey }: { key: KeyObject; publicKey: string },
  { clock, contact }: { clock: Clock; contact?: string },
): (origin: string) => Promise<string> {
  const signed = new LRUCache<string, { authorization: Promise<string>; untilMs: number }>({
    max: MAX_ORIGINS,
  });
  return (origin) => {
    const nowMs = clock.now();
    const found = signed.get(origin);
    if (found !== undefined && nowMs < found.untilMs) return found.authorization;
    const exp = Math.floor(nowMs / 1000) + LIFETIME_SECONDS;
    const claims = { aud: origin, exp, ...(contact === undefined ? {} : { sub: contact }) };
    const authorization = signJwt(claims, key, { alg: 'ES256', typ: 'JWT' }).then(
      (token) => `vapid t=${token}, k=${publicKey}`,
    );
    signed.set(origin, { authorization, untilMs: nowMs + USED_FOR_MS });
    return authorization;
  };
}

/** Parses a VAPID key pair. Returns the private key and the public key as it is sent, or the problem. */
export function readVapidKeys({
  public_key,
  private_key,
}: VapidKeys): { key: KeyObject; publicKey: string } | { field: keyof VapidKeys; problem: string } {
  const secretBytes = Buffer.from(private_key, 'base64url');
  const pair = createECDH('prime256v1');
  try {
    if (secretBytes.length !== 32) throw new Error('a P-256 key has 32 bytes');
    pair.setPrivateKey(secretBytes);
  } catch {
    return { field: 'private_key', problem: 'is not a VAPID key: 32 bytes in base64url' };
  }
  const point = pair.getPublicKey();
  if (!point.equals(Buffer.from(public_key, 'base64url')))
    return { field: 'public_key', problem: 'is not the public key of the private key' };
  const key = createPrivateKey({
    format: 'jwk',
    key: {
      kty: 'EC',
      crv: 'P-256',
      x: point.toString('base64url', 1, 33),
      y: point.toString('base64url', 33),
      d: secretBytes.toString('base64url'),
    },
  });
  return { key, publicKey: point.toString('base64url') };
}

/** Generates a VAPID key pair. */
export function createVapidKeys(): VapidKeys {
  const pair = createECDH('prime256v1');
  pair.generateKeys();
  return { public_key: pair.getPublicKey('base64url'), private_key: padded(pair.getPrivateKey()) };
}

/** Pads to 32 bytes: OpenSSL strips leading zeros, which browsers and push services require. */
function padded(key: Buffer): string {
  return Buffer.concat([Buffer.alloc(32 - key.length), key]).toString('base64url');
}
