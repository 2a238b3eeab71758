import { type BinaryToTextEncoding, hash } from 'node:crypto';

const BLOCK_BYTES = 64; // of SHA-256
const DIGEST_BYTES = 32;

// Reused for every call: nothing is awaited between filling and hashing them.
const shortText = Buffer.alloc(BLOCK_BYTES + 512);
const outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES);

/**
 * Returns the HMAC-SHA256 (RFC 2104) of a text for a key of at most 64 bytes, computed as its two hashes. For
 * the short texts signed here this takes half the time of `createHmac` with a key object, and a tenth of the
 * time of `createHmac` with the key as bytes.
 */
export function hmac(key: Uint8Array, text: Uint8Array | string): Buffer {
  // Converted from a string, because a digest as bytes takes three times as long.
  return Buffer.from(hmacText(key, text, 'binary'), 'binary');
}

/** Returns the same HMAC as text. */
export function hmacText(key: Uint8Array, text: Uint8Array | string, encoding: BinaryToTextEncoding): string {
  const bytes = typeof text === 'string' ? Buffer.byteLength(text) : text.length;
  const whole = BLOCK_BYTES + bytes;
  const inner = whole <= shortText.length ? shortText.subarray(0, whole) : Buffer.alloc(whole);
  for (let index = 0; index < BLOCK_BYTES; index += 1) {
    const byte = key[index] ?? 0;
    inner[index] = byte ^ 0x36;
    outer[index] = byte ^ 0x5c;
  }
  if (typeof text === 'string') inner.write(text, BLOCK_BYTES);
  else inner.set(text, BLOCK_BYTES);
  outer.write(hash('sha256', inner, 'binary'), BLOCK_BYTES, 'binary');
  return hash('sha256', outer, encoding);
}
