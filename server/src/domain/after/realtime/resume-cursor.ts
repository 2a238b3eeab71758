// A transaction that took its time stamp earlier may commit later: at most a statement timeout later.
const LATEST_COMMIT_MS = 30_000;
/** A broken link between nodes is noticed within this time (bus.ts: heartbeat and answer). */
export const NOTICE_MS = 15_000;
/** How far back a resume looks behind the newest thing that was delivered. */
export const RESUME_MARGIN_MS = LATEST_COMMIT_MS + NOTICE_MS;
/**
 * So many deliveries within the margin are remembered one by one: 6 bytes each in every event id of a busy
 * user.
 */
export const MAX_REMEMBERED = 128;

const VERSION = 1;
const HEADER_BYTES = 13;
const KEY_BYTES = 6;
const HALF = 0x1000000;

/**
 * What a connection has delivered, short enough to be an event id: the database time of the newest thing, and
 * which of the things within the margin before it. From it alone any node can tell what was missed.
 */
export class ResumeCursor {
  /** The newest delivery by the database's clock, in milliseconds; 0 before the first. */
  newestMs = 0;
  // Deliveries up to here that lie within the margin were forgotten for lack of room.
  #forgottenMs = 0;
  #keys: number[] = [];
  #timesMs: number[] = [];

  /** Reads what `toString` wrote; `undefined` when it is nothing of the kind. */
  static parse(text: string): ResumeCursor | undefined {
    if (!/^[A-Za-z0-9_-]{18,1100}$/.test(text)) return undefined;
    const bytes = Buffer.from(text, 'base64url');
    const count = (bytes.length - HEADER_BYTES) / KEY_BYTES;
    if (bytes[0] !== VERSION || !Number.isInteger(count) || count < 0 || count > MAX_REMEMBERED)
      return undefined;
    if (bytes.toString('base64url') !== text) return undefined;
    const cursor = new ResumeCursor();
    cursor.newestMs = bytes.readUIntBE(1, 6);
    cursor.#forgottenMs = bytes.readUIntBE(7, 6);
    for (let index = 0; index < count; index += 1) {
      cursor.#keys.push(bytes.readUIntBE(HEADER_BYTES + index * KEY_BYTES, KEY_BYTES));
      // When each was is not written down: taken for the newest, it is merely remembered a little longer.
      cursor.#timesMs.push(cursor.newestMs);
    }
    return cursor;
  }

  /** An opaque string without characters that a header or an event stream would mind. */
  toString(): string {
    const bytes = Buffer.allocUnsafe(HEADER_BYTES + this.#keys.length * KEY_BYTES);
    bytes[0] = VERSION;
    bytes.writeUIntBE(this.newestMs, 1, 6);
    bytes.writeUIntBE(this.#forgottenMs, 7, 6);
    this.#keys.forEach((key, index) => {
      bytes.writeUIntBE(key, HEADER_BYTES + index * KEY_BYTES, KEY_BYTES);
    });
    return bytes.toString('base64url');
  }

  /** Things from this time on, less those that `has` knows, may have been missed. */
  get sinceMs(): number {
    return this.newestMs - RESUME_MARGIN_MS;
  }

  /**
   * Whether more was delivered within the margin than is remembered, so that missed and delivered cannot be
   * told apart.
   */
  get uncertain(): boolean {
    return this.#forgottenMs > this.sinceMs;
  }

  has(key: number): boolean {
    return this.#keys.includes(key);
  }

  /**
   * Notes a delivery. `ceilingMs` holds the newest time back while other deliveries may be missing that are
   * not newer than it, so that a later resume still finds them.
   */
  add(key: number, atMs: number, ceilingMs = Number.POSITIVE_INFINITY): void {
    this.advance(Math.min(atMs, ceilingMs));
    if (atMs <= this.sinceMs || this.has(key)) return;
    if (this.#keys.length >= MAX_REMEMBERED) this.#forgetOldest();
    this.#keys.push(key);
    this.#timesMs.push(atMs);
  }

  /** Notes that everything up to a margin before this time has been delivered. */
  advance(toMs: number): void {
    if (toMs <= this.newestMs) return;
    this.newestMs = toMs;
    // Mostly in order: while the first has to be remembered, little would be gained by looking for others.
    if ((this.#timesMs[0] ?? toMs) > this.sinceMs) return;
    this.#keys = this.#keys.filter((_, index) => (this.#timesMs[index] ?? 0) > this.sinceMs);
    this.#timesMs = this.#timesMs.filter((atMs) => atMs > this.sinceMs);
  }

  #forgetOldest(): void {
    const atMs = Math.min(...this.#timesMs);
    const index = this.#timesMs.indexOf(atMs);
    this.#keys.splice(index, 1);
    this.#timesMs.splice(index, 1);
    this.#forgottenMs = Math.max(this.#forgottenMs, atMs);
  }
}

/**
 * 48 bits that stand for a delivery: of a new notification (`atMs` 0), or of its change at a time. The end of
 * an id is random already, so mixing in the time is all the hashing there is to do.
 */
export function deliveryKey(id: string, atMs = 0): number {
  const high = Number.parseInt(id.slice(24, 30), 16) ^ (atMs % HALF);
  const low = Number.parseInt(id.slice(30), 16) ^ Math.floor(atMs / HALF);
  return (high >>> 0) * HALF + (low >>> 0);
}
