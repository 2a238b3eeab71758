// A transaction with an earlier time stamp may commit later, by at most a statement timeout.
const LATEST_COMMIT_MS = 30_000;
/** A broken link between nodes, or a silent node, is noticed within this time (link.ts). */
export const NOTICE_MS = 20_000;
/** How far before the newest delivery a resume looks. */
export const RESUME_MARGIN_MS = LATEST_COMMIT_MS + NOTICE_MS;
/** Deliveries within the margin that are listed one by one: 6 bytes each in the event ids of a busy user. */
export const MAX_REMEMBERED = 128;

const VERSION = 2;
// The end of the year 9999, the last time that PostgreSQL reads as JavaScript writes it.
const LATEST_MS = 253_402_300_799_999;
const HEADER_BYTES = 13;
const KEY_BYTES = 6;
const HALF = 0x1000000;

/**
 * What a connection has delivered, short enough to be an event id: the time of the newest delivery, and the
 * deliveries within the margin before it. Any node can compute from it what was missed.
 */
export class ResumeCursor {
  /** The newest delivery by the database's clock, in milliseconds; 0 before the first. */
  newestMs = 0;
  // Deliveries within the margin up to this time were dropped for lack of space.
  #droppedMs = 0;
  #keys: number[] = [];
  #timesMs: number[] = [];

  /** Parses the result of `toString`. Returns `undefined` if it is malformed. */
  static parse(text: string): ResumeCursor | undefined {
    if (!/^[A-Za-z0-9_-]{18,1100}$/.test(text)) return undefined;
    const bytes = Buffer.from(text, 'base64url');
    const count = (bytes.length - HEADER_BYTES) / KEY_BYTES;
    if (bytes[0] !== VERSION || !Number.isInteger(count) || count < 0 || count > MAX_REMEMBERED)
      return undefined;
    if (bytes.toString('base64url') !== text) return undefined;
    const cursor = new ResumeCursor();
    cursor.newestMs = bytes.readUIntBE(1, 6);
    if (cursor.newestMs > LATEST_MS) return undefined;
    cursor.#droppedMs = bytes.readUIntBE(7, 6);
    for (let index = 0; index < count; index += 1) {
      cursor.#keys.push(bytes.readUIntBE(HEADER_BYTES + index * KEY_BYTES, KEY_BYTES));
      // The times are not stored. With the newest time they are only kept a little longer.
      cursor.#timesMs.push(cursor.newestMs);
    }
    return cursor;
  }

  /** An opaque string of characters that are safe in a header and an event stream. */
  toString(): string {
    const bytes = Buffer.allocUnsafe(HEADER_BYTES + this.#keys.length * KEY_BYTES);
    bytes[0] = VERSION;
    bytes.writeUIntBE(this.newestMs, 1, 6);
    bytes.writeUIntBE(this.#droppedMs, 7, 6);
    this.#keys.forEach((key, index) => {
      bytes.writeUIntBE(key, HEADER_BYTES + index * KEY_BYTES, KEY_BYTES);
    });
    return bytes.toString('base64url');
  }

  /** Deliveries from this time on may have been missed, except those that `has` knows. */
  get sinceMs(): number {
    return this.newestMs - RESUME_MARGIN_MS;
  }

  /** More was delivered within the margin than is listed: missed and delivered cannot be distinguished. */
  get uncertain(): boolean {
    return this.#droppedMs > this.sinceMs;
  }

  has(key: number): boolean {
    return this.#keys.includes(key);
  }

  /**
   * Adds a delivery. `ceilingMs` caps the newest time while deliveries up to then may be missing, so that a
   * later resume still finds them.
   */
  add(key: number, atMs: number, ceilingMs = Number.POSITIVE_INFINITY): void {
    this.advance(Math.min(atMs, ceilingMs));
    if (atMs <= this.sinceMs || this.has(key)) return;
    if (this.#keys.length >= MAX_REMEMBERED) this.#dropOldest();
    this.#keys.push(key);
    this.#timesMs.push(atMs);
  }

  /** Everything up to a margin before this time has been delivered. */
  advance(toMs: number): void {
    if (toMs <= this.newestMs) return;
    this.newestMs = toMs;
    // Times are mostly in order: while the first is kept, few others can be dropped.
    if ((this.#timesMs[0] ?? toMs) > this.sinceMs) return;
    this.#keys = this.#keys.filter((_, index) => (this.#timesMs[index] ?? 0) > this.sinceMs);
    this.#timesMs = this.#timesMs.filter((atMs) => atMs > this.sinceMs);
  }

  #dropOldest(): void {
    let oldest = 0;
    for (let index = 1; index < this.#timesMs.length; index += 1)
      if ((this.#timesMs[index] ?? 0) < (this.#timesMs[oldest] ?? 0)) oldest = index;
    const [atMs = 0] = this.#timesMs.splice(oldest, 1);
    this.#keys.splice(oldest, 1);
    this.#droppedMs = Math.max(this.#droppedMs, atMs);
  }
}

/**
 * 48 bits that identify the delivery of a notification that arrived at a time (`sent_at`), or of its change
 * then. The end of an id is random already, so mixing in the time is enough.
 */
export function deliveryKey(id: string, atMs: number): number {
  const high = Number.parseInt(id.slice(24, 30), 16) ^ (atMs % HALF);
  const low = Number.parseInt(id.slice(30), 16) ^ Math.floor(atMs / HALF);
  return (high >>> 0) * HALF + (low >>> 0);
}
