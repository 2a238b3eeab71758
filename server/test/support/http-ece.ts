import type { ECDH } from 'node:crypto';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
// The package has no types.
const ece = require('http_ece') as {
  decrypt(body: Buffer, keys: { version: 'aes128gcm'; privateKey: ECDH; authSecret: string }): Buffer;
};

/** Decrypts a push as a browser does, with an independent implementation. */
export function decryptPush(body: Buffer, { privateKey, auth }: { privateKey: ECDH; auth: string }): string {
  return ece.decrypt(body, { version: 'aes128gcm', privateKey, authSecret: auth }).toString();
}
