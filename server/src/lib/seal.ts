import { createCipheriv, createDecipheriv, createHash, createSecretKey, randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Seals secrets at rest. What was sealed for one purpose opens for no other, so a sealed value cannot be
 * moved.
 */
export interface Sealer {
  /** Names the keys at hand, in 8 hexadecimal digits each: the first seals. */
  readonly keyIds: readonly [string, ...string[]];
  /** `purpose` names the owner and the field: `project:<id>:api_secret`. It is authenticated, not stored. */
  seal(plaintext: string | Buffer, purpose: string): Buffer;
  /** Throws `CannotOpen` for a key that is not at hand, another purpose, or bytes that were changed. */
  open(sealed: Buffer, purpose: string): Buffer;
}

/** A sealed value that these keys do not open. The message names the key that it needs, never its content. */
export class CannotOpen extends Error {
  override name = 'CannotOpen';
  /** The key that it needs, where that is what is missing. */
  readonly keyId: string | undefined;

  constructor(message: string, options: ErrorOptions & { keyId?: string } = {}) {
    super(message, options);
    this.keyId = options.keyId;
  }
}

// version 1 | 4 bytes of the key's hash | 12 bytes nonce | ciphertext | 16 bytes tag
const VERSION = 1;
const KEY_ID_BYTES = 4;
const NONCE_BYTES = 12; // random: safe for 2^32 values under one key (NIST SP 800-38D), far more than will be sealed
const TAG_BYTES = 16;
const HEAD_BYTES = 1 + KEY_ID_BYTES + NONCE_BYTES;
const KEY_BYTES = 32;

/**
 * A sealer (AES-256-GCM) with these 32-byte keys: the first seals, all open. That is how a key is rotated.
 */
export function createSealer(keys: readonly Buffer[]): Sealer {
  const ring = keys.map((key) => {
    if (key.length !== KEY_BYTES) throw new Error(`a sealing key has ${KEY_BYTES} bytes, not ${key.length}`);
    // A key object is made ready once: with the plain bytes every value would pay for that, 10 µs instead of
    // 3.
    return { id: keyId(key), key: createSecretKey(key) };
  });
  const first = ring[0];
  if (first === undefined) throw new Error('a sealer needs a key');
  const [firstId, ...otherIds] = ring.map(({ id }) => id.toString('hex'));
  return {
    keyIds: [firstId ?? '', ...otherIds],
    seal(plaintext, purpose) {
      const nonce = randomBytes(NONCE_BYTES);
      const head = Buffer.concat([Buffer.of(VERSION), first.id, nonce]);
      const cipher = createCipheriv('aes-256-gcm', first.key, nonce);
      cipher.setAAD(context(head, purpose));
      const text = typeof plaintext === 'string' ? Buffer.from(plaintext) : plaintext;
      return Buffer.concat([head, cipher.update(text), cipher.final(), cipher.getAuthTag()]);
    },
    open(sealed, purpose) {
      if (sealed.length < HEAD_BYTES + TAG_BYTES) throw new CannotOpen('a sealed value is cut short');
      if (sealed[0] !== VERSION) throw new CannotOpen(`a sealed value has the unknown version ${sealed[0]}`);
      const head = sealed.subarray(0, HEAD_BYTES);
      const id = head.subarray(1, 1 + KEY_ID_BYTES);
      const found = ring.find((candidate) => candidate.id.equals(id));
      if (found === undefined) {
        const known = [firstId, ...otherIds].join(', ');
        throw new CannotOpen(
          `a secret was sealed with the key ${id.toString('hex')}, which is not at hand (SECRET_KEY has ${known})`,
          { keyId: id.toString('hex') },
        );
      }
      const decipher = createDecipheriv('aes-256-gcm', found.key, head.subarray(1 + KEY_ID_BYTES));
      decipher.setAAD(context(head, purpose));
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
      try {
        const plaintext = decipher.update(sealed.subarray(HEAD_BYTES, -TAG_BYTES));
        decipher.final(); // checks the tag; there is nothing left to come
        return plaintext;
      } catch (error) {
        throw new CannotOpen('a sealed value was changed, or sealed for something else', { cause: error });
      }
    },
  };
}

/** Where the key of a data directory is. */
export function keyPath(dataDir: string): string {
  return join(dataDir, 'secret.key');
}

/** The key in `<dataDir>/secret.key`; undefined when there is no such file. */
export function loadKey(dataDir: string): Buffer | undefined {
  return readKey(keyPath(dataDir));
}

/**
 * The key in `<dataDir>/secret.key`, made at the first call with mode 0600. Of several processes that call it
 * at once, all get the same key, and none ever sees half a file.
 */
export function loadOrCreateKey(dataDir: string): Buffer {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = keyPath(dataDir);
  const present = readKey(path);
  if (present !== undefined) return present;
  const draft = `${path}.${process.pid}.${randomBytes(6).toString('hex')}`;
  try {
    writeFileSync(draft, `${randomBytes(KEY_BYTES).toString('hex')}\n`, {
      mode: 0o600,
      flag: 'wx',
      flush: true,
    });
    // A link, unlike a rename, fails when the name exists: the first process wins and the others read its
    // key.
    linkSync(draft, path);
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  const made = readKey(path);
  if (made === undefined)
    throw new Error(
      `${path} leads to a file that is not there: put the key in its place, or remove the link`,
    );
  return made;
}

function readKey(path: string): Buffer | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8').trim();
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
  if (!/^[0-9a-f]{64}$/i.test(text)) {
    throw new Error(`${path} does not hold a key (64 hexadecimal characters); restore it from a backup`);
  }
  return Buffer.from(text, 'hex');
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === code;
}

/** What is authenticated beside the ciphertext: the head, and the purpose behind it. */
function context(head: Buffer, purpose: string): Buffer {
  const authenticated = Buffer.allocUnsafe(head.length + Buffer.byteLength(purpose));
  head.copy(authenticated);
  authenticated.write(purpose, head.length);
  return authenticated;
}

function keyId(key: Buffer): Buffer {
  // The prefix keeps the id from being a plain hash of the key, should one ever be published elsewhere.
  return createHash('sha256').update('belfry key id').update(key).digest().subarray(0, KEY_ID_BYTES);
}
