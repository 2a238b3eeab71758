/**
 * Encrypts messages to browsers: https://www.rfc-editor.org/rfc/rfc8291, with the content coding of
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

/** The validated keys of a subscription. */
export type Recipient = { publicKey: KeyObject; point: Buffer; auth: Buffer };

/** The server's keys for one message. `point` is the public key in the form in which it is sent. */
export type SenderKeys = { privateKey: KeyObject; point: Buffer };

/**
 * The bytes that encryption adds: the header with our public key, the delimiter of the last record, and the
 * tag.
 */
export const OVERHEAD_BYTES = 16 + 4 + 1 + 65 + 1 + 16;

const POINT_BYTES = 65; // an uncompressed P-256 point: 4, x, y
const RECORD_BYTES = 4096; // no message is larger, so there is one record
const HEADER_START = Buffer.from([...uint32(RECORD_BYTES), POINT_BYTES]);
const LAST_RECORD = Buffer.from([2]);
// The DER prefix of a public key: EC, prime256v1, 65 bytes. Faster to parse than a JWK.
const DER_START = Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex');

// The final 1 is HKDF's counter: no output is longer than one hash.
const KEY_INFO = Buffer.from('WebPush: info\0');
const CONTENT_KEY_INFO = Buffer.from('Content-Encoding: aes128gcm\0\x01');
const NONCE_INFO = Buffer.from('Content-Encoding: nonce\0\x01');
const COUNTER = Buffer.from([1]);

/**
 * Parses the keys of a subscription. Returns undefined if they are unusable; also checks that the point is on
 * the curve.
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

/** Creates our key pair for one message (RFC 8291, 3.1). It decrypts no other message. */
function createSenderKeys(): SenderKeys {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  // Faster than an export as DER, and than crypto.createECDH.
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const point = Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]);
  return { privateKey, point };
}

/**
 * Encrypts a push, so that only the browser can read it. `sender` and `salt` are for tests and must not be
 * reused.
 */
export function encrypt(
  text: Buffer,
  recipient: Recipient,
  { sender = createSenderKeys(), salt = freshSalt() }: { sender?: SenderKeys; salt?: Buffer } = {},
): Buffer {
  const secret = hmac(salt, agreedSecret(recipient, sender));
  // Encrypting with a key object is three times as fast as with bytes.
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

/** Derives the shared secret (RFC 8291, 3.4). */
function agreedSecret(recipient: Recipient, sender: SenderKeys): Buffer {
  const shared = diffieHellman({ privateKey: sender.privateKey, publicKey: recipient.publicKey });
  const info = Buffer.concat([KEY_INFO, recipient.point, sender.point, COUNTER]);
  return hmac(hmac(recipient.auth, shared), info);
}

const SALT_BYTES = 16;
const salts = Buffer.alloc(256 * SALT_BYTES);
let saltsUsed = salts.length;

/**
 * Returns a random salt. Random bytes are generated for 256 salts at once, which takes as long as for one.
 */
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
