import type { Rate } from '../../../providers/provider.ts';

/** How often something may be sent: over an integration, or to a destination. */
export interface RateLimit {
  key: string;
  /** All of them hold. They never change for a key. */
  rates: readonly Rate[];
}

/** A permit that is valid after a wait; or a reservation, for which the caller has to come back. */
export type RatePermit = { waitMs: number } | { deferredUntilMs: number };

// A permit that is valid within this time is waited for in place. That is longer than the queue's poll: at a
// slow rate one poll brings a second's messages, which would otherwise return to the queue many times.
export const IN_PLACE_MS = 1_250;
// A permit is stale if the message that waited for it is later by this: the process was suspended or blocked,
// and all of its messages would leave at once.
export const STALE_PERMIT_MS = 1_000;
// A node's clock may be ahead of this one's by this much. Schedules that are further ahead are dropped.
const CLOCK_TOLERANCE_MS = 5_000;
// If a permit is free for this long while later times are promised, the messages with the promises do not
// come: their broadcast was cancelled, for example. The promises lapse, so that no other message waits for
// them. One that comes for a promise after all counts as one that returns.
const LAPSES_AFTER_MS = 5_000;
// Deferrals are rounded up to this, so that messages that follow one another come back as one job.
const GRAIN_MS = 250;
// A limit that is far too small (one in a year) must not make a time that nothing can store: the caller comes
// back then.
const LONGEST_DEFERRAL_MS = 24 * 3_600_000;
// Beyond these the least recently used limit is dropped. A limit takes 300 bytes, and 16 for each use within
// its windows.
const MAX_KEYS = 50_000;
const MAX_BYTES = 32 * 1024 * 1024;
// 250 bytes each. Without room for a reservation the caller comes back at an estimated time, behind all
// others.
const MAX_RESERVATIONS = 50_000;
const MAX_RESERVATIONS_OF_KEY = 10_000;
// A reservation that is not used is dropped this long after it was due. They are searched for when room is
// short, and not too often.
const DROP_AFTER_MS = 10 * 60_000;
const SWEEP_EVERY_MS = 10_000;

/** A schedule as it is stored. */
export interface ScheduleState {
  /** Undefined if it was not stored yet. */
  version: number | undefined;
  times: Buffer;
}

interface Schedule {
  /** The version that was stored or read last. */
  version: number | undefined;
  /** The times that were promised to requests, in their order. */
  promised: SendTimes;
  /** The times of the permits that were taken: the limits hold for these. */
  taken: SendTimes;
  /** New times for callers that missed their reservation: other callers have used the permits. */
  deferred: SendTimes;
  /** Its bytes that are counted; undefined when it was dropped. */
  bytes: number | undefined;
  reserved: number;
  /** The latest time that was estimated for callers without a reservation. */
  estimatedMs: number;
  /** How often its promises have lapsed. */
  lapses: number;
}

interface Reservation {
  atMs: number;
  schedule: Schedule;
  /** The lapses of the schedule when the reservation was made. */
  lapses: number;
}

/**
 * Keeps to any number of rate limits at once, each over several sliding windows, in memory. No window ever
 * has more sends than its limit.
 */
export class RateLimiter {
  readonly #schedules = new Map<string, Schedule>();
  readonly #reservations = new Map<string, Reservation>();
  readonly #keepsReservations: boolean;
  /** It is at least this late, by the clock of the database: a node whose own clock lags drops nothing. */
  databaseMs = 0;
  #newest: Schedule | undefined;
  #bytes = 0;
  #sweptMs = 0;

  /** Where targets return to any node, none keeps their reservations: `hasReturned` stands for them. */
  constructor({ keepsReservations = true }: { keepsReservations?: boolean } = {}) {
    this.#keepsReservations = keepsReservations;
  }

  /**
   * Takes a permit for a target under all of the limits, if there is one within IN_PLACE_MS. Otherwise it
   * makes a reservation: the target comes back for it, and later callers get a later one. `hasReturned`
   * marks a target that was deferred or tried before, maybe by another node: new ones do not get ahead of it.
   */
  take(limits: readonly RateLimit[], targetId: string, nowMs: number, hasReturned = false): RatePermit {
    const [first] = limits;
    if (first === undefined) return { waitMs: 0 };
    const schedules = limits.map((limit) => this.#schedule(limit, nowMs));
    for (const schedule of schedules) letLapse(schedule, nowMs);
    const name = `${first.key} ${targetId}`;
    const reservation = this.#reservationOf(name);
    if (reservation !== undefined && reservation.atMs > nowMs + IN_PLACE_MS)
      return deferUntil(reservation.atMs, nowMs);
    if (reservation !== undefined) this.#cancel(name, reservation);
    const free = (which: 'taken' | 'promised' | 'deferred', fromMs: number) =>
      schedules.reduce((atMs, schedule) => Math.max(atMs, schedule[which].next(fromMs)), fromMs);
    const isNew = reservation === undefined && !hasReturned;
    const takenMs = free('taken', Math.max(nowMs, reservation?.atMs ?? 0));
    // A timer cuts off the fraction of a millisecond, and would fire early.
    const atMs = Math.ceil(isNew ? free('promised', takenMs) : takenMs);
    if (atMs <= nowMs + IN_PLACE_MS) {
      for (const schedule of schedules) {
        this.#add(schedule, 'taken', atMs);
        if (isNew) this.#add(schedule, 'promised', atMs);
      }
      return { waitMs: atMs - nowMs };
    }
    const kind = isNew ? 'promised' : 'deferred';
    return this.#reserve({ name, schedules, limits, kind, atMs: free(kind, atMs), nowMs });
  }

  /** The schedule of a key, for other nodes. */
  stateOf(key: string): ScheduleState {
    const schedule = this.#schedules.get(key);
    if (schedule === undefined) throw new Error('the schedule was dropped');
    const { promised, taken, deferred, version } = schedule;
    return { version, times: Buffer.concat([promised, taken, deferred].map((times) => times.encoded())) };
  }

  /** The schedule of a key is stored as this version. */
  stored(key: string, version: number): void {
    const schedule = this.#schedules.get(key);
    if (schedule !== undefined) schedule.version = version;
  }

  /** Replaces the schedule of a key by the state of another node, or drops it if there is none. */
  restore({ key, rates }: RateLimit, state: ScheduleState | undefined): void {
    const found = this.#schedules.get(key);
    if (found !== undefined) this.#drop(key, found);
    if (found === this.#newest) this.#newest = undefined;
    if (state === undefined) return;
    const schedule = newSchedule(rates, state.version);
    let offset = 0;
    for (const which of ['promised', 'taken', 'deferred'] as const)
      offset = schedule[which].decode(state.times, offset);
    this.#keep(key, schedule);
  }

  /** How much is in memory. */
  get size(): { keys: number; bytes: number; reservations: number } {
    return { keys: this.#schedules.size, bytes: this.#bytes, reservations: this.#reservations.size };
  }

  #reserve(wish: {
    name: string;
    schedules: readonly Schedule[];
    limits: readonly RateLimit[];
    kind: 'promised' | 'deferred';
    atMs: number;
    nowMs: number;
  }): RatePermit {
    const { name, schedules, limits, kind, atMs, nowMs } = wish;
    const [schedule] = schedules;
    if (schedule === undefined || !this.#hasRoom(schedule, nowMs))
      return estimate(schedule, limits, atMs, nowMs);
    for (const one of schedules) this.#add(one, kind, atMs);
    if (this.#keepsReservations) {
      this.#reservations.set(name, { atMs, schedule, lapses: schedule.lapses });
      schedule.reserved += 1;
    }
    return deferUntil(atMs, nowMs);
  }

  /** One that has lapsed does not count, nor one whose limit was dropped, as after a change of the clock. */
  #reservationOf(name: string): Reservation | undefined {
    const reservation = this.#reservations.size === 0 ? undefined : this.#reservations.get(name);
    if (reservation === undefined || isValid(reservation)) return reservation;
    this.#cancel(name, reservation);
    return undefined;
  }

  #cancel(name: string, reservation: Reservation): void {
    this.#reservations.delete(name);
    reservation.schedule.reserved -= 1;
  }

  #hasRoom(schedule: Schedule, nowMs: number): boolean {
    const isFull = () =>
      this.#reservations.size >= MAX_RESERVATIONS || schedule.reserved >= MAX_RESERVATIONS_OF_KEY;
    if (isFull() && nowMs >= this.#sweptMs + SWEEP_EVERY_MS) {
      this.#sweptMs = nowMs;
      for (const [name, reservation] of this.#reservations) {
        if (reservation.atMs + DROP_AFTER_MS < nowMs) this.#cancel(name, reservation);
      }
    }
    return !isFull();
  }

  #add(schedule: Schedule, which: 'taken' | 'promised' | 'deferred', atMs: number): void {
    schedule[which].add(atMs);
    const bytes = bytesOf(schedule);
    if (schedule.bytes === undefined || bytes === schedule.bytes) return;
    this.#bytes += bytes - schedule.bytes;
    schedule.bytes = bytes;
    this.#evict();
  }

  /** The schedule of a key, which is then the most recently used. */
  #schedule({ key, rates }: RateLimit, nowMs: number): Schedule {
    const found = this.#schedules.get(key);
    // No permit is that far ahead: the clock was set back, and the schedule would block until that time.
    const latestMs = Math.max(nowMs, this.databaseMs) + IN_PLACE_MS + CLOCK_TOLERANCE_MS;
    const isAhead = found !== undefined && found.taken.lastMs > latestMs;
    if (found !== undefined && found === this.#newest && !isAhead) return found;
    if (found !== undefined) this.#drop(key, found);
    const schedule = found === undefined || isAhead ? newSchedule(rates, found?.version) : found;
    this.#keep(key, schedule);
    return schedule;
  }

  #keep(key: string, schedule: Schedule): void {
    this.#schedules.set(key, schedule);
    this.#bytes += bytesOf(schedule);
    schedule.bytes = bytesOf(schedule);
    this.#newest = schedule;
    this.#evict();
  }

  #evict(): void {
    for (const [key, schedule] of this.#schedules) {
      const fits = this.#schedules.size <= MAX_KEYS && this.#bytes <= MAX_BYTES;
      if (fits || schedule === this.#newest) return;
      this.#drop(key, schedule);
    }
  }

  #drop(key: string, schedule: Schedule): void {
    this.#schedules.delete(key);
    this.#bytes -= schedule.bytes ?? 0;
    schedule.bytes = undefined;
  }
}

function newSchedule(rates: readonly Rate[], version?: number): Schedule {
  return {
    version,
    promised: new SendTimes(rates),
    taken: new SendTimes(rates),
    deferred: new SendTimes(rates),
    bytes: undefined,
    reserved: 0,
    estimatedMs: 0,
    lapses: 0,
  };
}

/** Drops the promises of a schedule if no message comes for them. Permits that were taken still count. */
function letLapse(schedule: Schedule, nowMs: number): void {
  const { promised, deferred, taken } = schedule;
  const sinceMs = nowMs - LAPSES_AFTER_MS;
  if (Math.max(promised.lastMs, deferred.lastMs) <= nowMs || taken.next(sinceMs) > sinceMs) return;
  promised.clear();
  deferred.clear();
  schedule.estimatedMs = 0;
  schedule.lapses += 1;
}

function isValid({ schedule, lapses }: Reservation): boolean {
  return schedule.bytes !== undefined && schedule.lapses === lapses;
}

function bytesOf({ promised, taken, deferred }: Schedule): number {
  return promised.bytes + taken.bytes + deferred.bytes;
}

function deferUntil(atMs: number, nowMs: number): RatePermit {
  const untilMs = Math.ceil(atMs / GRAIN_MS) * GRAIN_MS;
  return { deferredUntilMs: Math.min(untilMs, nowMs + LONGEST_DEFERRAL_MS) };
}

/** Estimates are spread at the pace of the limits, so that the callers do not all come back at once. */
function estimate(
  schedule: Schedule | undefined,
  limits: readonly RateLimit[],
  atMs: number,
  nowMs: number,
): RatePermit {
  const paces = limits.flatMap(({ rates }) => rates.map(({ limit, windowMs }) => windowMs / limit));
  const untilMs = Math.max(schedule?.estimatedMs ?? 0, atMs) + Math.max(0, ...paces);
  if (schedule !== undefined) schedule.estimatedMs = untilMs;
  return deferUntil(untilMs, nowMs);
}

const FIRST_CELLS = 4;

/** The times of sends under some rates, in their order, as far back as the windows reach. */
class SendTimes {
  readonly #rates: readonly Rate[];
  readonly #most: number;
  /** A ring buffer that grows up to the largest of the limits. */
  #cells = new Float64Array(FIRST_CELLS);
  #first = 0;
  #count = 0;

  constructor(rates: readonly Rate[]) {
    this.#rates = rates;
    this.#most = Math.max(1, ...rates.map(({ limit }) => limit));
  }

  /** The first time, not before now and not before the last one, that is within all limits. */
  next(nowMs: number): number {
    if (this.#count === 0) return nowMs;
    let atMs = Math.max(nowMs, this.#at(this.#count - 1));
    for (const { limit, windowMs } of this.#rates) {
      if (this.#count >= limit) atMs = Math.max(atMs, this.#at(this.#count - limit) + windowMs);
    }
    return atMs;
  }

  /** Adds a time, which must not be before the one that `next` returned. */
  add(atMs: number): void {
    if (this.#count === this.#most) {
      this.#first = (this.#first + 1) % this.#cells.length;
      this.#count -= 1;
    }
    if (this.#count === this.#cells.length) this.#grow();
    this.#cells[(this.#first + this.#count) % this.#cells.length] = atMs;
    this.#count += 1;
  }

  clear(): void {
    this.#count = 0;
  }

  /** The number of times, then the times. */
  encoded(): Buffer {
    const bytes = Buffer.alloc(4 + 8 * this.#count);
    bytes.writeUInt32LE(this.#count);
    for (let index = 0; index < this.#count; index += 1) bytes.writeDoubleLE(this.#at(index), 4 + 8 * index);
    return bytes;
  }

  /** Adds the times that `encoded` has written at this offset. Returns the offset behind them. */
  decode(bytes: Buffer, offset: number): number {
    const end = offset + 4 + 8 * bytes.readUInt32LE(offset);
    for (let at = offset + 4; at < end; at += 8) this.add(bytes.readDoubleLE(at));
    return end;
  }

  /** The last one. */
  get lastMs(): number {
    return this.#count === 0 ? Number.NEGATIVE_INFINITY : this.#at(this.#count - 1);
  }

  /** Memory, in bytes. */
  get bytes(): number {
    return this.#cells.byteLength;
  }

  #at(index: number): number {
    return this.#cells[(this.#first + index) % this.#cells.length] ?? 0;
  }

  #grow(): void {
    const cells = new Float64Array(Math.min(this.#cells.length * 2, Math.max(this.#most, FIRST_CELLS)));
    for (let index = 0; index < this.#count; index += 1) cells[index] = this.#at(index);
    this.#cells = cells;
    this.#first = 0;
  }
}
