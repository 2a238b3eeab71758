import type { IncomingMessage, ServerResponse } from 'node:http';
import { getHeapStatistics } from 'node:v8';
import type { Config } from '../config.ts';
import { ClientError } from '../errors.ts';
import type { Caller } from './auth.ts';
import { network } from './rate-limit.ts';

// Bodies up to this size have a separate budget, so that large ones cannot displace them. Responses up to
// this size are not counted.
export const SMALL_BYTES = 64 * 1024;
/** The delay of a retry: requests and responses of 10 MiB take less than a second. */
const RETRY_AFTER_SECONDS = 1;

/** The memory of a request body or a response, until every holder has released it. */
export interface HeldMemory {
  readonly bytes: number;
  /** Reserves more, up to `bytes` in total. Throws like `take`. */
  grow(bytes: number): void;
  /** Adds a holder. */
  hold(): void;
  release(): void;
}

/**
 * The memory for the request bodies, or the responses, in flight. What does not fit is rejected: with 429 if
 * its credential has used its share, else with 503. A single one of any size always fits.
 */
export class MemoryBudget {
  readonly #small: Pool;
  readonly #large: Pool;

  constructor(bytes: number, of: 'requests' | 'responses') {
    this.#large = new Pool(bytes, bytes / 2, of);
    this.#small = new Pool(bytes / 2, bytes / 8, of);
  }

  /**
   * Reserves memory for `credential` with one holder. Throws `rate_limit_exceeded` or `service_unavailable`.
   */
  take(credential: string, bytes: number): HeldMemory {
    const pool = bytes > SMALL_BYTES ? this.#large : this.#small;
    pool.take(credential, bytes);
    return new Held(pool, credential, bytes);
  }

  /** Reserves as much for something large, even if it does not fit. */
  takeAnyway(credential: string, bytes: number): HeldMemory {
    this.#large.takeAnyway(credential, bytes);
    return new Held(this.#large, credential, bytes);
  }
}

class Held implements HeldMemory {
  readonly #pool: Pool;
  readonly #credential: string;
  #holders = 1;
  bytes: number;

  constructor(pool: Pool, credential: string, bytes: number) {
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
  readonly #of: string;
  readonly #ofCredentials = new Map<string, number>();
  used = 0;

  constructor(bytes: number, share: number, of: string) {
    this.#bytes = bytes;
    this.#share = share;
    this.#of = of;
  }

  take(credential: string, bytes: number): void {
    const own = this.#ofCredentials.get(credential) ?? 0;
    if (own > 0 && own + bytes > this.#share) throw refusal(this.#of, 'credential');
    if (this.used > 0 && this.used + bytes > this.#bytes) throw refusal(this.#of, 'server');
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

function refusal(of: string, lacking: 'credential' | 'server'): ClientError {
  const headers = { 'retry-after': String(RETRY_AFTER_SECONDS) };
  if (lacking === 'credential') {
    return new ClientError(
      'rate_limit_exceeded',
      [`Too many large ${of} of this credential are in progress. Try again when some have ended`],
      headers,
    );
  }
  return new ClientError(
    'service_unavailable',
    [`Too many large ${of} are in progress. Try again in a moment`],
    headers,
  );
}

/** Releases memory when the response has ended, or its client has disconnected. */
export function releaseAtEnd(memory: HeldMemory, response: ServerResponse | undefined): void {
  if (response?.closed) memory.release();
  else response?.once('close', () => memory.release());
}

/** Whose share of a budget a request uses. Without a credential it is that of its address. */
export function shareholder(
  { caller, raw }: { caller?: Caller | undefined; raw: IncomingMessage },
  addressOf: (request: IncomingMessage) => string,
): string {
  if (caller === undefined) return network(addressOf(raw));
  return caller.kind === 'user' ? caller.userId : caller.tokenId;
}

/** The size of the budget for request bodies, and of that for responses. */
export function budgetBytes({ REQUEST_BODIES_MIB: mebibytes }: Config): number {
  return mebibytes === undefined ? bodyBytesForHeap() : mebibytes * 2 ** 20;
}

/** The bytes of bodies for which this process has enough heap. */
export function bodyBytesForHeap(): number {
  return Math.floor(getHeapStatistics().heap_size_limit / HEAP_PER_BYTE);
}

// Measured: a body of 10 MiB adds 70 MiB, as bytes, value, stored text and response, and in the thread.
const HEAP_PER_BYTE = 8;
