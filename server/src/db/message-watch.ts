const HEAD_BYTES = 5; // the type and the length
const LENGTH_BYTES = 4; // included in the length
const MAX_LENGTH = 1 << 30; // PostgreSQL's largest value
// The messages of a server after the start of TLS:
// https://www.postgresql.org/docs/current/protocol-message-formats.html
const TYPES = new Uint8Array(256);
for (const type of Buffer.from('123ACDEGHIKNRSTVWZcdnstv')) TYPES[type] = 1;

/**
 * Checks the bytes from a database's connection: `take` throws for an invalid message header. The rest of a
 * message may arrive much later: PostgreSQL sends its buffer of 8 kB when it is full, also in the middle of a
 * message, and the rest when the statement has filled it again or ends.
 */
export class MessageWatch {
  readonly #head = Buffer.alloc(HEAD_BYTES);
  #headBytes = 0;
  #missing = 0;

  take(bytes: Buffer): void {
    let at = Math.min(this.#missing, bytes.length);
    this.#missing -= at;
    while (at < bytes.length) {
      if (this.#headBytes > 0 || bytes.length - at < HEAD_BYTES) {
        const copied = bytes.copy(this.#head, this.#headBytes, at);
        this.#headBytes += copied;
        at += copied;
        if (this.#headBytes < HEAD_BYTES) break;
        this.#headBytes = 0;
        this.#missing = restOf(this.#head, 0);
      } else {
        this.#missing = restOf(bytes, at);
        at += HEAD_BYTES;
      }
      const here = Math.min(this.#missing, bytes.length - at);
      this.#missing -= here;
      at += here;
    }
  }
}

/** The length of a message after its header. Throws for an invalid header. */
function restOf(bytes: Buffer, at: number): number {
  const length = bytes.readUInt32BE(at + 1);
  if (TYPES[bytes[at] ?? 0] === 0 || length < LENGTH_BYTES || length > MAX_LENGTH)
    throw new Error('not the header of a message');
  return length - LENGTH_BYTES;
}
