import { chunksOf } from '../../../lib/chunks.ts';
import type { BroadcastContents } from '../../line/notifications/contents.ts';
import type { Frame } from './frame.ts';
import { keysOf, type Missed, type MissedEvent, type MissedRequest, missedEvents } from './missed.ts';
import { NOTICE_MS, RESUME_MARGIN_MS, ResumeCursor } from './resume-cursor.ts';
import type { Snapshot, SnapshotRequest } from './snapshot.ts';

/** An open WebSocket or event stream. */
export interface Connection {
  readonly kind: 'socket' | 'stream';
  readonly projectId: string;
  readonly userId: string;
  /** The inbox token that opened it. */
  readonly tokenId?: string;
  /** Present if its first message has the state of the inbox. */
  readonly snapshot?: Pick<SnapshotRequest, 'listed' | 'preferencesUrl'> | undefined;
  /** Whether its protocol has the config of the inbox. */
  readonly showsAppearance?: true;
  /** Whether the token may have this one connection only. */
  readonly exclusive?: boolean;
  /** Writes without waiting. Never throws; the connection itself closes a client that is too slow. */
  send(frame: Frame, cursor: ResumeCursor): void;
  /**
   * Called before the first frame, if the database was queried: frames are complete from `cursor` on, and
   * from the state of the inbox, if it wants one. Only the config of a stream that was resumed.
   */
  begin(cursor: ResumeCursor, snapshotJson?: string): void;
  /** Too much was missed: the client has to fetch its list. */
  resync(cursor: ResumeCursor): void;
  /** Resolves when the client has read most of what was written, or has closed. Usually undefined. */
  drained(): Promise<void> | undefined;
  close(reason: CloseReason): void;
}

export type CloseReason =
  | 'token_discarded' // it must not be used any more
  | 'user_deleted' // nothing is delivered to them any more
  | 'replaced' // a newer connection of an exclusive token
  | 'too_many' // of one user
  | 'slow' // reads more slowly than events happen
  | 'behind' // could not be brought up to date: connect again
  | 'shutdown';

// Frames that wait while a client catches up. With more the client is closed, and reconnects.
const MAX_HELD = 1_000;
// Contents are loaded for this many frames at a time, so that catching up takes little memory.
const EVENTS_PER_LOAD = 50;

/** When messages may have been missed, in milliseconds of the database's clock: see `MessagesMissed`. */
export interface MissedTime {
  sinceMs: number;
  untilMs?: number | undefined;
  /** The loss was noticed, so the cursor was capped. */
  isCapped: boolean;
}

export interface SubscriptionDeps {
  contents: BroadcastContents;
  readMissed(request: MissedRequest): Promise<Missed>;
  readSnapshot(request: SnapshotRequest): Promise<Snapshot>;
  readConfig(user: { projectId: string; userId: string }): Promise<string>;
}

/**
 * One connection's position in the stream of its user. Sends frames, or keeps them while it reads earlier
 * events from the database, so that none is repeated or missing.
 */
export class Subscription {
  readonly connection: Connection;
  readonly #deps: SubscriptionDeps;
  #cursor = new ResumeCursor();
  #held: { frame: Frame; ceilingMs: number }[] | undefined;
  // When the database was last read, by its clock.
  #readAtMs = 0;
  // Catch-ups that have not started: frames wait until the last has ended.
  #queued = 0;
  #ended = false;
  #work: Promise<void> = Promise.resolve();

  constructor(deps: SubscriptionDeps, connection: Connection) {
    this.#deps = deps;
    this.connection = connection;
  }

  /** Sends a frame to the client, or keeps it during a catch-up. `ceilingMs`: see `ResumeCursor.add`. */
  deliver(frame: Frame, ceilingMs: number): void {
    if (this.#ended) return;
    if (this.#held === undefined) {
      // A new notification may be announced twice, if a node did not know whether its message had arrived.
      if (frame.name !== 'notifications/new' || !this.#knows(frame)) this.#pass(frame, ceilingMs);
    } else if (this.#held.length < MAX_HELD) this.#held.push({ frame, ceilingMs });
    else this.close('behind');
  }

  /**
   * Starts with what the client has missed since `resumeFrom`. Rejects, with nothing written, if the database
   * does not respond.
   */
  async open(resumeFrom: string | undefined): Promise<void> {
    this.#held = [];
    const begun = Promise.withResolvers<void>();
    // Whatever failed, the client reconnects, and resumes from its own cursor.
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

  /** Sends what was missed. */
  catchUp(missed: MissedTime): void {
    this.#after(() => this.#catchUp(missed));
  }

  /** Too much changed: makes the client fetch its list, and continues from there. */
  resync(): void {
    this.#after(() => this.#restart());
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

  /** Does this after all earlier catch-ups; frames wait until it is done. */
  #after(work: () => Promise<void>): void {
    if (this.#ended) return;
    this.#held ??= [];
    this.#queued += 1;
    this.#work = this.#work
      .then(() => {
        this.#queued -= 1;
        return this.#ended ? undefined : work();
      })
      .catch(() => this.close('behind'));
  }

  /** Queries the database. Returns a function that sends the result. */
  async #prepare(resumeFrom: string | undefined): Promise<() => Promise<void>> {
    const { projectId, userId, snapshot } = this.connection;
    const resumed = resumeFrom === undefined ? undefined : ResumeCursor.parse(resumeFrom);
    const missed =
      resumed === undefined || resumed.uncertain ? undefined : await this.#readMissed(resumed.sinceMs);
    if (resumed === undefined || missed === undefined || missed.tooMany) {
      if (snapshot !== undefined) {
        const state = await this.#deps.readSnapshot({ projectId, userId, ...snapshot });
        return () => this.#startFresh(state.known, { snapshotJson: state.json });
      }
      const known = await this.#readMissed(undefined);
      return () => this.#startFresh(known, { resync: resumeFrom !== undefined });
    }
    const config = snapshot && (await this.#deps.readConfig({ projectId, userId }));
    return () => {
      this.#cursor = resumed;
      if (!this.#ended) this.connection.begin(resumed, config);
      return this.#sendMissed(missed, resumed.sinceMs);
    };
  }

  async #catchUp({ sinceMs: lostAtMs, untilMs, isCapped }: MissedTime): Promise<void> {
    const { newestMs, uncertain } = this.#cursor;
    if (untilMs !== undefined && this.#readAtMs > untilMs) return this.#release([]);
    // Behind its position the cursor cannot distinguish delivered from missed.
    const passed = !isCapped && lostAtMs < newestMs - NOTICE_MS;
    if (passed || uncertain) return this.#restart();
    const sinceMs = newestMs === 0 ? lostAtMs - RESUME_MARGIN_MS : this.#cursor.sinceMs;
    const missed = await this.#readMissed(sinceMs);
    if (this.#ended) return;
    return missed.tooMany ? this.#restart() : this.#sendMissed(missed, sinceMs);
  }

  async #restart(): Promise<void> {
    const known = await this.#readMissed(undefined);
    this.#cursor = new ResumeCursor();
    await this.#startFresh(known, { resync: true });
  }

  #readMissed(sinceMs: number | undefined): Promise<Missed> {
    return this.#deps.readMissed({ userId: this.connection.userId, sinceMs });
  }

  /** Everything in the database counts as delivered. Frames are sent from here on. */
  async #startFresh(
    known: Missed,
    { resync = false, snapshotJson }: { resync?: boolean; snapshotJson?: string },
  ): Promise<void> {
    if (this.#ended) return;
    this.#readAtMs = known.nowMs;
    this.#cursor.advance(known.nowMs);
    for (const { key, atMs } of keysOf(known.states)) this.#cursor.add(key, Math.min(atMs, known.nowMs));
    this.connection.begin(this.#cursor, snapshotJson);
    if (resync) this.connection.resync(this.#cursor);
    // A new client may have read its list before the waiting frames were committed: it gets all of them.
    // After a resync it reads the list again, and a snapshot has what is known.
    await this.#release(resync || snapshotJson !== undefined ? keysOf(known.states) : undefined);
  }

  async #sendMissed(missed: Missed, sinceMs: number): Promise<void> {
    const events = missedEvents(missed.states, this.#cursor, sinceMs);
    for (const some of chunksOf(events, EVENTS_PER_LOAD)) {
      await this.#sendSome(some);
      if (this.#ended) return;
    }
    this.#readAtMs = missed.nowMs;
    this.#cursor.advance(missed.nowMs);
    await this.#release(keysOf(missed.states));
  }

  async #sendSome(events: readonly MissedEvent[]): Promise<void> {
    const contents = await this.#deps.contents.load(events.map(({ broadcastId }) => broadcastId));
    for (const { frame, broadcastId } of events) {
      if (this.#ended) return;
      this.#pass(frame(contents.get(broadcastId) ?? ''), Number.POSITIVE_INFINITY);
      await this.connection.drained();
    }
  }

  /** Sends the waiting frames except those that were `sent` already, and then continues live. */
  async #release(sent: { key: number }[] | undefined): Promise<void> {
    const keys = new Set<number | undefined>(sent?.map(({ key }) => key));
    for (let next = this.#held?.shift(); next !== undefined; next = this.#held?.shift()) {
      const { frame, ceilingMs } = next;
      const known = keys.has(frame.key) || (sent !== undefined && this.#knows(frame));
      if (!known) this.#pass(frame, ceilingMs);
      await this.connection.drained();
    }
    if (this.#queued === 0) this.#held = undefined;
  }

  #knows({ key }: Frame): boolean {
    return key !== undefined && this.#cursor.has(key);
  }

  #pass(frame: Frame, ceilingMs: number): void {
    if (frame.key !== undefined) this.#cursor.add(frame.key, frame.atMs, ceilingMs);
    this.connection.send(frame, this.#cursor);
  }
}
