const HEAD_BYTES = 5; // the type and the length
const LENGTH_BYTES = 4; // included in the length
const MAX_LENGTH = 1 << 30; // PostgreSQL's largest value
// The messages of a server after the start of TLS:
// https://www.postgresql.org/docs/current/protocol-message-formats.html
const TYPES = new Uint8Array(256);
for (const type of Buffer.from('123ACDEGHIKNRSTVWZcdnstv')) TYPES[type] = 1;
const ERROR = 'E'.charCodeAt(0);
const NOTICE = 'N'.charCodeAt(0);

/**
 * Checks the bytes from a database's connection: `take` throws for an invalid message header, and for an
 * error or a notice without its end, in which the driver's parser would loop for ever. The rest of a
 * message may arrive much later: PostgreSQL sends its buffer of 8 kB when it is full, also in the middle of a
 * message, and the rest when the statement has filled it again or ends.
 */
export class MessageWatch {
  readonly #head = Buffer.alloc(HEAD_BYTES);
  #headBytes = 0;
  #missing = 0;
  /** For an error or a notice: how many zeros there are at the end of what has arrived, at most 2. */
  #zeros: number | undefined;

  take(bytes: Buffer): void {
    let at = this.#takeRest(bytes, 0);
    while (at < bytes.length) {
      if (this.#headBytes > 0 || bytes.length - at < HEAD_BYTES) {
        const copied = bytes.copy(this.#head, this.#headBytes, at);
        this.#headBytes += copied;
        at += copied;
        if (this.#headBytes < HEAD_BYTES) break;
        this.#headBytes = 0;
        this.#begin(this.#head, 0);
      } else {
        this.#begin(bytes, at);
        at += HEAD_BYTES;
      }
      at = this.#takeRest(bytes, at);
    }
  }

  #begin(bytes: Buffer, at: number): void {
    this.#missing = restOf(bytes, at);
    const type = bytes[at];
    this.#zeros = type === ERROR || type === NOTICE ? 0 : undefined;
    if (this.#missing === 0) this.#end();
  }

  /** Takes what there is of the rest of a message, and returns where that ends. */
  #takeRest(bytes: Buffer, from: number): number {
    if (this.#missing === 0) return from;
    const to = from + Math.min(this.#missing, bytes.length - from);
    this.#missing -= to - from;
    if (this.#zeros !== undefined)
      for (let at = Math.max(from, to - 2); at < to; at += 1)
        this.#zeros = bytes[at] === 0 ? Math.min(this.#zeros + 1, 2) : 0;
    if (this.#missing === 0) this.#end();
    return to;
  }

  // The last field of an error ends with a zero, and the list of fields with another one.
  #end(): void {
    if (this.#zeros !== undefined && this.#zeros < 2) throw new Error('not the end of an error');
  }
}

/** The length of a message after its header. Throws for an invalid header. */
function restOf(bytes: Buffer, at: number): number {
  const length = bytes.readUInt32BE(at + 1);
  if (TYPES[bytes[at] ?? 0] === 0 || length < LENGTH_BYTES || length > MAX_LENGTH)
    throw new Error('not the header of a message');
  return length - LENGTH_BYTES;
}
