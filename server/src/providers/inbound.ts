import { createHmac, timingSafeEqual } from 'node:crypto';

/** Whether this is the hexadecimal HMAC-SHA256 of the bytes. Takes the same time whatever is wrong with it. */
export function hasSignature(signed: Buffer, key: string, signature: string): boolean {
  const wanted = createHmac('sha256', key).update(signed).digest();
  const given = Buffer.alloc(wanted.length);
  const written = given.write(signature, 'hex');
  return (
    timingSafeEqual(given, wanted) && written === wanted.length && signature.length === 2 * wanted.length
  );
}

/** The object that a JSON text is. */
export function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** A header that is there once. */
export function textOf(header: string | string[] | undefined): string {
  return typeof header === 'string' ? header : '';
}
