import type { BroadcastContents } from '../../line/notifications/contents.ts';
import type { Frame } from './frame.ts';
import { keysOf, type Missed, type MissedEvent, type MissedRequest, missedEvents } from './missed.ts';
import { NOTICE_MS, RESUME_MARGIN_MS, ResumeCursor } from './resume-cursor.ts';

/** What is open to a client: a WebSocket or an event stream. */
export interface Connection {
  readonly kind: 'socket' | 'stream';
  readonly projectId: string;
  readonly userId: string;
  /** The inbox token that it was opened with. */
  readonly tokenId?: string;
  /** Whether the token may have this one connection only. */
  readonly exclusive?: boolean;
  /** Writes without waiting. Never throws; a reader that is too slow is closed by the connection itself. */
  send(frame: Frame, cursor: ResumeCursor): void;
  /**
   * The database has answered: what follows is complete from `cursor` on. Before the first frame, if caught
   * up at all.
   */
  begin(cursor: ResumeCursor): void;
  /** More was missed than can be told: the client has to fetch its list. */
  resync(cursor: ResumeCursor): void;
  /** Resolves when the client has taken most of what was written, or is gone. At once in the usual case. */
  drained(): Promise<void> | undefined;
  close(reason: CloseReason): void;
}

export type CloseReason =
  | 'token_discarded' // nobody may listen with it any more
  | 'user_deleted' // nothing is delivered to them any more
  | 'replaced' // a newer connection of an exclusive token
  | 'too_many' // of one user
  | 'slow' // reads more slowly than things happen
  | 'behind' // could not be brought up to date: connect again
  | 'shutdown';

// Frames that wait while a client is brought up to date. Beyond it the client starts anew.
const MAX_HELD = 1_000;
// Contents are loaded for so many frames at a time, so that a client with much to catch up on costs little
// memory.
const EVENTS_PER_LOAD = 50;

export interface SubscriptionDeps {
  contents: BroadcastContents;
  readMissed(request: MissedRequest): Promise<Missed>;
}

/**
 * One connection's place in the stream of its user: it passes frames on, or holds them back while it looks
 * into the database for what came before them, so that nothing is told twice or left out.
 */
export class Subscription {
  readonly connection: Connection;
  readonly #deps: SubscriptionDeps;
  #cursor = new ResumeCursor();
  #held: { frame: Frame; ceilingMs: number }[] | undefined;
  // Catch-ups that have not begun: frames are held until the last is done.
  #queued = 0;
  #ended = false;
  #work: Promise<void> = Promise.resolve();

  constructor(deps: SubscriptionDeps, connection: Connection) {
    this.#deps = deps;
    this.connection = connection;
  }

  /** Hands a frame to the client, or keeps it until it is its turn. `ceilingMs`: see `ResumeCursor.add`. */
  deliver(frame: Frame, ceilingMs: number): void {
    if (this.#ended) return;
    if (this.#held === undefined) {
      // A new notification may be announced twice, when a node could not tell whether its message had
      // arrived.
      if (frame.name !== 'notifications/new' || !this.#cursor.has(frame.key)) this.#pass(frame, ceilingMs);
    } else if (this.#held.length < MAX_HELD) this.#held.push({ frame, ceilingMs });
    else this.close('behind');
  }

  /**
   * Starts with what the client has missed since `resumeFrom`. Rejects, with nothing written, when the
   * database does not answer.
   */
  async open(resumeFrom: string | undefined): Promise<void> {
    this.#held = [];
    const begun = Promise.withResolvers<void>();
    // Whatever it was, the client is told to connect again, and starts from its own cursor then.
    this.#work = begun.promise.catch(() => this.close('behind'));
    try {
      const begin = await this.#prepare(resumeFrom);
      begun.resolve(begin());
    } catch (error) {
      this.end();
      begun.resolve();
      throw error;
    }
  }

  /**
   * Looks for what went by since `lostAtMs`. `heldBack`: the cursor was held back from then on, because the
   * loss was noticed.
   */
  catchUp(lostAtMs: number, heldBack: boolean): void {
    if (this.#ended) return;
    this.#held ??= [];
    this.#queued += 1;
    this.#work = this.#work
      .then(() => {
        this.#queued -= 1;
        return this.#catchUp(lostAtMs, heldBack);
      })
      .catch(() => this.close('behind'));
  }

  close(reason: CloseReason): void {
    if (this.#ended) return;
    this.end();
    this.connection.close(reason);
  }

  /** Nothing is written from now on. */
  end(): void {
    this.#ended = true;
    this.#held = undefined;
  }

  /** Asks the database; the answer tells the client what it said. */
  async #prepare(resumeFrom: string | undefined): Promise<() => Promise<void>> {
    const resumed = resumeFrom === undefined ? undefined : ResumeCursor.parse(resumeFrom);
    const missed =
      resumed === undefined || resumed.uncertain ? undefined : await this.#readMissed(resumed.sinceMs);
    if (resumed === undefined || missed === undefined || missed.tooMany) {
      const known = await this.#readMissed(undefined);
      return () => this.#startAnew(known, resumeFrom !== undefined);
    }
    return () => {
      this.#cursor = resumed;
      if (!this.#ended) this.connection.begin(resumed);
      return this.#tell(missed, resumed.sinceMs);
    };
  }

  async #catchUp(lostAtMs: number, heldBack: boolean): Promise<void> {
    if (this.#ended) return;
    const { newestMs, uncertain } = this.#cursor;
    // What the cursor has passed it can no longer tell apart from what was missed.
    const passed = !heldBack && lostAtMs < newestMs - NOTICE_MS;
    if (passed || uncertain) return this.#startAgain();
    const sinceMs = newestMs === 0 ? lostAtMs - RESUME_MARGIN_MS : this.#cursor.sinceMs;
    const missed = await this.#readMissed(sinceMs);
    if (this.#ended) return;
    return missed.tooMany ? this.#startAgain() : this.#tell(missed, sinceMs);
  }

  async #startAgain(): Promise<void> {
    const known = await this.#readMissed(undefined);
    this.#cursor = new ResumeCursor();
    await this.#startAnew(known, true);
  }

  #readMissed(sinceMs: number | undefined): Promise<Missed> {
    return this.#deps.readMissed({ userId: this.connection.userId, sinceMs });
  }

  /** What stands in the database counts as known: from here on everything is told. */
  async #startAnew(known: Missed, resync: boolean): Promise<void> {
    if (this.#ended) return;
    this.#cursor.advance(known.nowMs);
    for (const { key, atMs } of keysOf(known.states)) this.#cursor.add(key, Math.min(atMs, known.nowMs));
    this.connection.begin(this.#cursor);
    if (resync) this.connection.resync(this.#cursor);
    // A client that is new may have read its list before what is held here was committed: it is told all of
    // it. After a resync it reads the list again.
    await this.#release(resync ? keysOf(known.states) : undefined);
  }

  async #tell(missed: Missed, sinceMs: number): Promise<void> {
    const events = missedEvents(missed.states, this.#cursor, sinceMs);
    for (let from = 0; from < events.length; from += EVENTS_PER_LOAD) {
      await this.#tellSome(events.slice(from, from + EVENTS_PER_LOAD));
      if (this.#ended) return;
    }
    this.#cursor.advance(missed.nowMs);
    await this.#release(keysOf(missed.states));
  }

  async #tellSome(events: readonly MissedEvent[]): Promise<void> {
    const contents = await this.#deps.contents.load(events.map(({ broadcastId }) => broadcastId));
    for (const { frame, broadcastId } of events) {
      if (this.#ended) return;
      this.#pass(frame(contents.get(broadcastId) ?? ''), Number.POSITIVE_INFINITY);
      await this.connection.drained();
    }
  }

  /**
   * Passes on what was held, less what was told already (all of it where that is undefined), and goes on
   * live.
   */
  async #release(told: { key: number }[] | undefined): Promise<void> {
    const keys = new Set(told?.map(({ key }) => key));
    for (let next = this.#held?.shift(); next !== undefined; next = this.#held?.shift()) {
      const { frame, ceilingMs } = next;
      const known = keys.has(frame.key) || (told !== undefined && this.#cursor.has(frame.key));
      if (!known) this.#pass(frame, ceilingMs);
      await this.connection.drained();
    }
    if (this.#queued === 0) this.#held = undefined;
  }

  #pass(frame: Frame, ceilingMs: number): void {
    this.#cursor.add(frame.key, frame.atMs, ceilingMs);
    this.connection.send(frame, this.#cursor);
  }
}
