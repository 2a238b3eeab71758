import { createHmac, type KeyObject } from 'node:crypto';

/** Signs a JWT with HS256, without the code under test. It may be one that Belfry would not issue. */
export function hs256(
  claims: unknown,
  key: KeyObject,
  header: unknown = { alg: 'HS256', typ: 'JWT' },
): string {
  const text = `${base64url(header)}.${base64url(claims)}`;
  return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`;
}

function base64url(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
