import type { Rate } from '../../../providers/provider.ts';
import { Times } from './times.ts';

/** How often something may be done under a name: an integration's, a destination's. */
export interface Limit {
  key: string;
  /** All of them hold. The same for a key, always. */
  rates: readonly Rate[];
}

/** A turn that is taken, to be waited for so long; or one that has to be come back for. */
export type Turn = { waitMs: number } | { heldUntilMs: number };

// A turn that is due within this time is waited for in place. Longer than the queue's poll: of a slow rate
// one poll brings a second's messages, which would otherwise go to the queue and come back again and again.
export const IN_PLACE_MS = 1_250;
// Turns to come back for are told to this grain, so that those which follow one another come back as one job.
const GRAIN_MS = 250;
// A limit that is far too small (one in a year) must not make a time that nothing can store: who waits for it
// asks again then.
const LONGEST_HOLD_MS = 24 * 3_600_000;
// Beyond these the limit that was not used for longest is forgotten. A limit takes 300 bytes and 16 for each
// use within its windows.
const MAX_KEYS = 50_000;
const MAX_BYTES = 32 * 1024 * 1024;
// 250 bytes each. Who finds no place to book comes back by estimate, and stands at the end of the line again.
const MAX_BOOKINGS = 50_000;
const MAX_BOOKINGS_OF_KEY = 10_000;
// A booked turn that nobody came for is forgotten so long after it was due. That is looked for when room is
// short, and not too often.
const FORGET_AFTER_MS = 10 * 60_000;
const SWEEP_EVERY_MS = 10_000;

interface Line {
  /** Turns promised to who came first, and turns taken: only these have to keep to the limits. */
  promised: Times;
  taken: Times;
  /** When those come back who came too late for their turn and found others at it. */
  deferred: Times;
  /** That are counted; undefined when it is forgotten. */
  bytes: number | undefined;
  booked: number;
  /** Where the estimates for those without a booking have come to. */
  crowdMs: number;
}

interface Booking {
  atMs: number;
  line: Line;
}

/**
 * Keeps to any number of limits at once, each over several windows, in memory: in no window are there ever
 * more than its limit.
 */
export class Rates {
  readonly #lines = new Map<string, Line>();
  readonly #bookings = new Map<string, Booking>();
  #newest: Line | undefined;
  #bytes = 0;
  #sweptMs = 0;

  /**
   * Takes a turn for a target under all of the limits, if there is one within IN_PLACE_MS. Otherwise it books
   * one: the target comes back for it, and who asks later gets a later one.
   */
  take(limits: readonly Limit[], targetId: string, nowMs: number): Turn {
    const [first] = limits;
    if (first === undefined) return { waitMs: 0 };
    const lines = limits.map((limit) => this.#line(limit, nowMs));
    const name = `${first.key} ${targetId}`;
    const booking = this.#bookingOf(name);
    if (booking !== undefined && booking.atMs > nowMs + IN_PLACE_MS) return held(booking.atMs, nowMs);
    if (booking !== undefined) this.#forget(name, booking);
    const free = (which: 'taken' | 'promised' | 'deferred', fromMs: number) =>
      lines.reduce((atMs, line) => Math.max(atMs, line[which].next(fromMs)), fromMs);
    const kind = booking === undefined ? 'promised' : 'deferred';
    const takenMs = free('taken', Math.max(nowMs, booking?.atMs ?? 0));
    // A timer would cut off the fraction of a millisecond, and fire early.
    const atMs = Math.ceil(booking === undefined ? free('promised', takenMs) : takenMs);
    if (atMs <= nowMs + IN_PLACE_MS) {
      for (const line of lines) {
        this.#note(line, 'taken', atMs);
        if (booking === undefined) this.#note(line, 'promised', atMs);
      }
      return { waitMs: atMs - nowMs };
    }
    return this.#book({ name, lines, limits, kind, atMs: free(kind, atMs), nowMs });
  }

  /** How much is remembered. */
  get size(): { keys: number; bytes: number; bookings: number } {
    return { keys: this.#lines.size, bytes: this.#bytes, bookings: this.#bookings.size };
  }

  #book(wish: {
    name: string;
    lines: readonly Line[];
    limits: readonly Limit[];
    kind: 'promised' | 'deferred';
    atMs: number;
    nowMs: number;
  }): Turn {
    const { name, lines, limits, kind, atMs, nowMs } = wish;
    const [line] = lines;
    if (line === undefined || !this.#hasRoom(line, nowMs)) return estimate(line, limits, atMs, nowMs);
    for (const one of lines) this.#note(one, kind, atMs);
    this.#bookings.set(name, { atMs, line });
    line.booked += 1;
    return held(atMs, nowMs);
  }

  /**
   * What was booked with a limit that was forgotten since, as after the clock was put back, counts no more.
   */
  #bookingOf(name: string): Booking | undefined {
    const booking = this.#bookings.size === 0 ? undefined : this.#bookings.get(name);
    if (booking === undefined || booking.line.bytes !== undefined) return booking;
    this.#forget(name, booking);
    return undefined;
  }

  #forget(name: string, booking: Booking): void {
    this.#bookings.delete(name);
    booking.line.booked -= 1;
  }

  #hasRoom(line: Line, nowMs: number): boolean {
    const isFull = () => this.#bookings.size >= MAX_BOOKINGS || line.booked >= MAX_BOOKINGS_OF_KEY;
    if (isFull() && nowMs >= this.#sweptMs + SWEEP_EVERY_MS) {
      this.#sweptMs = nowMs;
      for (const [name, booking] of this.#bookings) {
        if (booking.atMs + FORGET_AFTER_MS < nowMs) this.#forget(name, booking);
      }
    }
    return !isFull();
  }

  #note(line: Line, which: 'taken' | 'promised' | 'deferred', atMs: number): void {
    line[which].add(atMs);
    const bytes = bytesOf(line);
    if (line.bytes === undefined || bytes === line.bytes) return;
    this.#bytes += bytes - line.bytes;
    line.bytes = bytes;
    this.#evict();
  }

  /** The line of a key, which is then the newest. */
  #line({ key, rates }: Limit, nowMs: number): Line {
    const found = this.#lines.get(key);
    // Nothing is taken ahead of its time: the clock has been put back, and would have to come there again
    // first.
    const isAhead = found !== undefined && found.taken.lastMs > nowMs + IN_PLACE_MS;
    if (found !== undefined && found === this.#newest && !isAhead) return found;
    if (found !== undefined) this.#drop(key, found);
    const line = found === undefined || isAhead ? newLine(rates) : found;
    this.#lines.set(key, line);
    this.#bytes += bytesOf(line);
    line.bytes = bytesOf(line);
    this.#newest = line;
    this.#evict();
    return line;
  }

  #evict(): void {
    for (const [key, line] of this.#lines) {
      const fits = this.#lines.size <= MAX_KEYS && this.#bytes <= MAX_BYTES;
      if (fits || line === this.#newest) return;
      this.#drop(key, line);
    }
  }

  #drop(key: string, line: Line): void {
    this.#lines.delete(key);
    this.#bytes -= line.bytes ?? 0;
    line.bytes = undefined;
  }
}

function newLine(rates: readonly Rate[]): Line {
  return {
    promised: new Times(rates),
    taken: new Times(rates),
    deferred: new Times(rates),
    bytes: undefined,
    booked: 0,
    crowdMs: 0,
  };
}

function bytesOf({ promised, taken, deferred }: Line): number {
  return promised.bytes + taken.bytes + deferred.bytes;
}

function held(atMs: number, nowMs: number): Turn {
  const untilMs = Math.ceil(atMs / GRAIN_MS) * GRAIN_MS;
  return { heldUntilMs: Math.min(untilMs, nowMs + LONGEST_HOLD_MS) };
}

/** Spread at the pace of the limits, so that they do not all come back at once. */
function estimate(line: Line | undefined, limits: readonly Limit[], atMs: number, nowMs: number): Turn {
  const paces = limits.flatMap(({ rates }) => rates.map(({ limit, windowMs }) => windowMs / limit));
  const untilMs = Math.max(line?.crowdMs ?? 0, atMs) + Math.max(0, ...paces);
  if (line !== undefined) line.crowdMs = untilMs;
  return held(untilMs, nowMs);
}
