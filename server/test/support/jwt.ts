import { createHmac, type KeyObject } from 'node:crypto';

/** A JWT signed by HS256, made without the code under test: also ones that Belfry itself would not make. */
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
