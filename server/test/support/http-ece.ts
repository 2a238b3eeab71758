import type { ECDH } from 'node:crypto';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
// It comes without types.
const ece = require('http_ece') as {
  decrypt(body: Buffer, keys: { version: 'aes128gcm'; privateKey: ECDH; authSecret: string }): Buffer;
};

/** What a browser reads in the body of a push: by an implementation that is not ours. */
export function decryptPush(body: Buffer, { privateKey, auth }: { privateKey: ECDH; auth: string }): string {
  return ece.decrypt(body, { version: 'aes128gcm', privateKey, authSecret: auth }).toString();
}
