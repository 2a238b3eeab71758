import { getHeapStatistics } from 'node:v8';
import { ClientError } from '../../errors.ts';

// Bodies up to this size have a separate budget, so that large ones cannot displace them.
export const SMALL_BODY_BYTES = 64 * 1024;
/** The delay of a retry: requests of 10 MiB take less than a second. */
const RETRY_AFTER_SECONDS = 1;

/** The memory of a body, until every holder has released it. */
export interface HeldBody {
  readonly bytes: number;
  /** Reserves more, up to `bytes` in total. Throws like `take`. */
  grow(bytes: number): void;
  /** Adds a holder. */
  hold(): void;
  release(): void;
}

/**
 * The memory for request bodies in flight. Bodies that do not fit are rejected before they are read: with 429
 * if their credential has used its share, else with 503. A single body of any size always fits.
 */
export class BodyBudget {
  readonly #small: Pool;
  readonly #large: Pool;

  constructor(bytes: number) {
    this.#large = new Pool(bytes, bytes / 2);
    this.#small = new Pool(bytes / 2, bytes / 8);
  }

  /**
   * Reserves memory for a body of `credential` with one holder. Throws `rate_limit_exceeded` or
   * `service_unavailable`.
   */
  take(credential: string, bytes: number): HeldBody {
    const pool = bytes > SMALL_BODY_BYTES ? this.#large : this.#small;
    return new Held(pool, credential, bytes);
  }

  /** Bytes of bodies in flight. */
  get used(): number {
    return this.#large.used + this.#small.used;
  }
}

class Held implements HeldBody {
  readonly #pool: Pool;
  readonly #credential: string;
  #holders = 1;
  bytes: number;

  constructor(pool: Pool, credential: string, bytes: number) {
    pool.take(credential, bytes);
    this.#pool = pool;
    this.#credential = credential;
    this.bytes = bytes;
  }

  grow(bytes: number): void {
    this.#pool.take(this.#credential, bytes - this.bytes);
    this.bytes = bytes;
  }

  hold(): void {
    this.#holders += 1;
    if (this.#holders === 1) this.#pool.takeAnyway(this.#credential, this.bytes);
  }

  release(): void {
    this.#holders -= 1;
    if (this.#holders === 0) this.#pool.give(this.#credential, this.bytes);
  }
}

/** A number of bytes, of which one credential gets a share. */
class Pool {
  readonly #bytes: number;
  readonly #share: number;
  readonly #ofCredentials = new Map<string, number>();
  used = 0;

  constructor(bytes: number, share: number) {
    this.#bytes = bytes;
    this.#share = share;
  }

  take(credential: string, bytes: number): void {
    const own = this.#ofCredentials.get(credential) ?? 0;
    if (own > 0 && own + bytes > this.#share) throw refusal('credential');
    if (this.used > 0 && this.used + bytes > this.#bytes) throw refusal('server');
    this.takeAnyway(credential, bytes);
  }

  takeAnyway(credential: string, bytes: number): void {
    this.used += bytes;
    this.#ofCredentials.set(credential, (this.#ofCredentials.get(credential) ?? 0) + bytes);
  }

  give(credential: string, bytes: number): void {
    this.used -= bytes;
    const left = (this.#ofCredentials.get(credential) ?? 0) - bytes;
    if (left > 0) this.#ofCredentials.set(credential, left);
    else this.#ofCredentials.delete(credential);
  }
}

function refusal(lacking: 'credential' | 'server'): ClientError {
  const headers = { 'retry-after': String(RETRY_AFTER_SECONDS) };
  if (lacking === 'credential') {
    return new ClientError(
      'rate_limit_exceeded',
      ['Too many large requests of this credential are in progress. Try again when some have ended'],
      headers,
    );
  }
  return new ClientError(
    'service_unavailable',
    ['Too many large requests are in progress. Try again in a moment'],
    headers,
  );
}

/** The bytes of bodies for which this process has enough heap. */
export function bodyBytesForHeap(): number {
  return Math.floor(getHeapStatistics().heap_size_limit / HEAP_PER_BYTE);
}

// Measured: a body of 10 MiB adds 70 MiB, as bytes, value, stored text and response, and in the thread.
const HEAP_PER_BYTE = 8;
