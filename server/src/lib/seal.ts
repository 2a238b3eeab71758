import { createCipheriv, createDecipheriv, createHash, createSecretKey, randomBytes } from 'node:crypto';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from './make-folder.ts';

/**
 * Encrypts secrets at rest. A value that was sealed for one purpose cannot be opened for another, so it
 * cannot be moved.
 */
export interface Sealer {
  /** The ids of the keys, 8 hexadecimal digits each. The first key seals. */
  readonly keyIds: readonly [string, ...string[]];
  /**
   * Seals a text. `purpose` names the owner and the field: `project:<id>:api_secret`. It is authenticated,
   * not stored.
   */
  seal(plaintext: string | Buffer, purpose: string): Buffer;
  /**
   * Opens a sealed value. Throws `CannotOpen` if the key is not available, the purpose differs, or bytes were
   * changed.
   */
  open(sealed: Buffer, purpose: string): Buffer;
}

/** A sealed value that these keys cannot open. The message names the required key, never its content. */
export class CannotOpen extends Error {
  override name = 'CannotOpen';
  /** The required key, if it is missing. */
  readonly keyId: string | undefined;

  constructor(message: string, options: ErrorOptions & { keyId?: string } = {}) {
    super(message, options);
    this.keyId = options.keyId;
  }
}

/** What `open` returns, as the only item; none if it throws `CannotOpen`. */
export function ifOpened<Value>(open: () => Value): Value[] {
  try {
    return [open()];
  } catch (error) {
    if (error instanceof CannotOpen) return [];
    throw error;
  }
}

// version 1 | 4 bytes of the key's hash | 12 bytes nonce | ciphertext | 16 bytes tag
const VERSION = 1;
const KEY_ID_BYTES = 4;
const NONCE_BYTES = 12; // random: safe for 2^32 values per key (NIST SP 800-38D)
const TAG_BYTES = 16;
const HEAD_BYTES = 1 + KEY_ID_BYTES + NONCE_BYTES;
const KEY_BYTES = 32;

/**
 * Creates a sealer (AES-256-GCM) with these 32-byte keys. The first key seals and all keys open, so that keys
 * can be rotated.
 */
export function createSealer(keys: readonly Buffer[]): Sealer {
  const ring = keys.map((key) => {
    if (key.length !== KEY_BYTES) throw new Error(`a sealing key has ${KEY_BYTES} bytes, not ${key.length}`);
    // A key object is prepared once; with plain bytes every value would take 10 µs instead of 3.
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
      if (sealed.length < HEAD_BYTES + TAG_BYTES) throw new CannotOpen('an encrypted value is truncated');
      if (sealed[0] !== VERSION)
        throw new CannotOpen(`an encrypted value has the unknown version ${sealed[0]}`);
      const head = sealed.subarray(0, HEAD_BYTES);
      const id = head.subarray(1, 1 + KEY_ID_BYTES);
      const found = ring.find((candidate) => candidate.id.equals(id));
      if (found === undefined) {
        const known = [firstId, ...otherIds].join(', ');
        throw new CannotOpen(
          `a secret was encrypted with the key ${id.toString('hex')}, ` +
            `which is not available (SECRET_KEY has ${known})`,
          { keyId: id.toString('hex') },
        );
      }
      const decipher = createDecipheriv('aes-256-gcm', found.key, head.subarray(1 + KEY_ID_BYTES));
      decipher.setAAD(context(head, purpose));
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
      try {
        const plaintext = decipher.update(sealed.subarray(HEAD_BYTES, -TAG_BYTES));
        decipher.final(); // verifies the tag; returns no more data
        return plaintext;
      } catch (error) {
        throw new CannotOpen('an encrypted value was modified, or encrypted for another purpose', {
          cause: error,
        });
      }
    },
  };
}

/** Returns the path of the key file in a data directory. */
export function keyPath(dataDir: string): string {
  return join(dataDir, 'secret.key');
}

/** Reads the key in `<dataDir>/secret.key`; undefined if the file does not exist. */
export function loadKey(dataDir: string): Buffer | undefined {
  return readKey(keyPath(dataDir));
}

/**
 * Reads the key in `<dataDir>/secret.key`, or creates it with mode 0600. Concurrent processes all get the
 * same key, and none reads a partial file.
 */
export function loadOrCreateKey(dataDir: string): Buffer {
  makeFolder(dataDir, 0o700);
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
    // A link, unlike a rename, fails if the name exists: the first process wins and the others read its key.
    linkSync(draft, path);
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  const made = readKey(path);
  if (made === undefined) throw new Error(`${path} links to a file that does not exist`);
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
    throw new Error(`${path} does not hold a key (64 hexadecimal characters)`);
  }
  return Buffer.from(text, 'hex');
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === code;
}

/** Returns the authenticated data: the head of the sealed value, then the purpose. */
function context(head: Buffer, purpose: string): Buffer {
  const authenticated = Buffer.allocUnsafe(head.length + Buffer.byteLength(purpose));
  head.copy(authenticated);
  authenticated.write(purpose, head.length);
  return authenticated;
}

function keyId(key: Buffer): Buffer {
  // The prefix prevents the id from being a plain hash of the key.
  return createHash('sha256').update('belfry key id').update(key).digest().subarray(0, KEY_ID_BYTES);
}
