// PostgreSQL sends a message at once. If the rest is this late, its length was damaged on the way, and the
// driver would wait until the statement times out.
const REST_MS = 5_000;

const HEAD_BYTES = 5; // the type and the length
const LENGTH_BYTES = 4; // included in the length
const MAX_LENGTH = 1 << 30; // PostgreSQL's largest value
// The messages of a server after the start of TLS:
// https://www.postgresql.org/docs/current/protocol-message-formats.html
const TYPES = new Uint8Array(256);
for (const type of Buffer.from('123ACDEGHIKNRSTVWZcdnstv')) TYPES[type] = 1;

/**
 * Checks the bytes from a database's connection: `take` throws for an invalid message header, and `onStall`
 * is called if the rest of a message does not arrive.
 */
export class MessageWatch {
  readonly #onStall: () => void;
  readonly #head = Buffer.alloc(HEAD_BYTES);
  #headBytes = 0;
  #missing = 0;
  #chunks = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(onStall: () => void) {
    this.#onStall = onStall;
  }

  take(bytes: Buffer): void {
    this.#chunks += 1;
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
    if (this.#missing > 0 || this.#headBytes > 0) this.#expectRest();
    else this.stop();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #expectRest(): void {
    if (this.#timer !== undefined) {
      this.#timer.refresh();
      return;
    }
    this.#timer = setTimeout(() => {
      const chunks = this.#chunks;
      this.#timer = undefined;
      // If this process was blocked, the rest has arrived and is read now.
      setImmediate(() => {
        if (this.#chunks === chunks) this.#onStall();
      });
    }, REST_MS).unref();
  }
}

/** The length of a message after its header. Throws for an invalid header. */
function restOf(bytes: Buffer, at: number): number {
  const length = bytes.readUInt32BE(at + 1);
  if (TYPES[bytes[at] ?? 0] === 0 || length < LENGTH_BYTES || length > MAX_LENGTH)
    throw new Error('not the header of a message');
  return length - LENGTH_BYTES;
}
