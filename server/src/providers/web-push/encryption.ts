/**
 * Encryption of messages to browsers: https://www.rfc-editor.org/rfc/rfc8291, with the coding of
 * https://www.rfc-editor.org/rfc/rfc8188
 */
import {
  createCipheriv,
  createPublicKey,
  createSecretKey,
  diffieHellman,
  generateKeyPairSync,
  type KeyObject,
  randomFillSync,
} from 'node:crypto';
import { hmac } from '../shared/hmac.ts';

/** The browser's part of a subscription, once it is known to be usable. */
export type Recipient = { publicKey: KeyObject; point: Buffer; auth: Buffer };

/** Our part: `point` is the public key as it is sent along. */
export type SenderKeys = { privateKey: KeyObject; point: Buffer };

/**
 * What encrypting adds to a message: the header with our public key, the mark of the last record, and the
 * tag.
 */
export const OVERHEAD_BYTES = 16 + 4 + 1 + 65 + 1 + 16;

const POINT_BYTES = 65; // 4, x, y: a point of P-256 that is not compressed
const RECORD_BYTES = 4096; // larger than any message: there is one record
const HEADER_START = Buffer.from([...uint32(RECORD_BYTES), POINT_BYTES]);
const LAST_RECORD = Buffer.from([2]);
// What stands before the point in a DER public key: "EC, on prime256v1, 65 bytes". Quicker read than a JWK.
const DER_START = Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex');

// The 1 at the end is HKDF's counter: none of the outputs is longer than one hash.
const KEY_INFO = Buffer.from('WebPush: info\0');
const CONTENT_KEY_INFO = Buffer.from('Content-Encoding: aes128gcm\0\x01');
const NONCE_INFO = Buffer.from('Content-Encoding: nonce\0\x01');
const COUNTER = Buffer.from([1]);

/**
 * The keys of a subscription; undefined where nothing can be encrypted to them. Whether the point is on the
 * curve is checked here.
 */
export function readRecipient({ p256dh, auth }: { p256dh: string; auth: string }): Recipient | undefined {
  const point = Buffer.from(p256dh, 'base64url');
  const authBytes = Buffer.from(auth, 'base64url');
  if (point.length !== POINT_BYTES || authBytes.length !== 16) return undefined;
  try {
    const publicKey = createPublicKey({
      key: Buffer.concat([DER_START, point]),
      format: 'der',
      type: 'spki',
    });
    return { publicKey, point, auth: authBytes };
  } catch {
    return undefined;
  }
}

/**
 * A pair of ours, for one message (RFC 8291, 3.1): with it that message can be read and no
 * other.
 */
function createSenderKeys(): SenderKeys {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  // Quicker than the same as DER, and than crypto.createECDH.
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const point = Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]);
  return { privateKey, point };
}

/**
 * The body of a push: a text that only the browser can read. `sender` and `salt` are for tests, they must
 * never be used twice.
 */
export function encrypt(
  text: Buffer,
  recipient: Recipient,
  { sender = createSenderKeys(), salt = freshSalt() }: { sender?: SenderKeys; salt?: Buffer } = {},
): Buffer {
  const secret = hmac(salt, agreedSecret(recipient, sender));
  // A key object is three times as quick to encrypt with as bytes.
  const key = createSecretKey(hmac(secret, CONTENT_KEY_INFO).subarray(0, 16));
  const cipher = createCipheriv('aes-128-gcm', key, hmac(secret, NONCE_INFO).subarray(0, 12));
  return Buffer.concat([
    salt,
    HEADER_START,
    sender.point,
    cipher.update(text),
    cipher.update(LAST_RECORD),
    cipher.final(),
    cipher.getAuthTag(),
  ]);
}

/** What both sides know (RFC 8291, 3.4). */
function agreedSecret(recipient: Recipient, sender: SenderKeys): Buffer {
  const shared = diffieHellman({ privateKey: sender.privateKey, publicKey: recipient.publicKey });
  const info = Buffer.concat([KEY_INFO, recipient.point, sender.point, COUNTER]);
  return hmac(hmac(recipient.auth, shared), info);
}

const SALT_BYTES = 16;
const salts = Buffer.alloc(256 * SALT_BYTES);
let saltsUsed = salts.length;

/** Random bytes are fetched for many messages at once: that costs as much as for one. */
function freshSalt(): Buffer {
  if (saltsUsed === salts.length) {
    randomFillSync(salts);
    saltsUsed = 0;
  }
  saltsUsed += SALT_BYTES;
  return Buffer.from(salts.subarray(saltsUsed - SALT_BYTES, saltsUsed));
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
