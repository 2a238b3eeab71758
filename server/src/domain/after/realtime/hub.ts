import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../../db/client.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { sockets } from '../../../metrics.ts';
import type {
  AppearanceChanged,
  Bus,
  NotificationChanged,
  NotificationsNew,
  NotificationsNewElsewhere,
  RealtimeMessage,
} from '../../ground/bus/messages.ts';
import type { BroadcastContents } from '../../line/notifications/contents.ts';
import { inboxConfigsOf } from '../../people/installations/inbox.ts';
import { appearanceFrame, changeFrame, type Frame, newFrames } from './frame.ts';
import { createMissedReader } from './missed.ts';
import { createConfigReader, createSnapshotReader, type SnapshotDeps } from './snapshot.ts';
import { type Connection, type MissedTime, Subscription, type SubscriptionDeps } from './subscription.ts';

/** A person has a few windows open. More come from a program that does not close its connections. */
export const MAX_CONNECTIONS_PER_USER = 100;
// Messages that share a query for missing data.
const MAX_PER_LOAD = 512;
// If more messages wait for the database, all connections read what they missed from it instead.
const MAX_WAITING = 20_000;

export interface HubDeps extends SnapshotDeps {
  bus: Bus;
  log: Logger;
}

const TRANSPORT = { socket: 'websocket', stream: 'sse' } as const;

/** Open connections. */
export interface HubCounts {
  socket: number;
  stream: number;
}

/** The connections of this node by user. Receives every message of the bus and writes frames in order. */
export class Hub {
  readonly #db: Queryable;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #sealer: Sealer;
  readonly #contents: BroadcastContents;
  readonly #deps: SubscriptionDeps;
  readonly #users = new Map<string, Set<Subscription>>();
  readonly #counts: HubCounts = { socket: 0, stream: 0 };
  readonly #unsubscribe: () => void;
  // A token may be discarded between the authentication of a socket and its registration here.
  readonly #discarded = new LRUCache<string, true>({ ...cacheLimit(10_000), ttl: 60_000 });
  // So may its user be deleted.
  readonly #deleted = new LRUCache<string, true>({ ...cacheLimit(10_000), ttl: 60_000 });
  #waiting: Waiting[] = [];
  #isSending = false;
  // One after another, so that the latest config arrives last.
  #appearances: Promise<void> = Promise.resolve();
  // While the link between nodes is down: the time after which messages may be missing.
  #ceilingMs = Number.POSITIVE_INFINITY;

  constructor(deps: HubDeps) {
    const { db, bus, clock, log, sealer, contents } = deps;
    this.#db = db;
    this.#clock = clock;
    this.#log = log;
    this.#sealer = sealer;
    this.#contents = contents;
    this.#deps = {
      contents: this.#contents,
      readMissed: createMissedReader({ db, clock }),
      readSnapshot: createSnapshotReader(deps),
      readConfig: createConfigReader(deps),
    };
    this.#unsubscribe = bus.subscribe((message) => this.#receive(message));
  }

  /** Registers a connection for all frames from now on. Call the returned function when it has closed. */
  add(connection: Connection): () => void {
    const subscription = new Subscription(this.#deps, connection);
    this.#enter(subscription);
    return () => this.#leave(subscription);
  }

  /**
   * Registers a connection for all frames since the event id `resumeFrom`, or from now on. Resolves when the
   * missed events are loaded. Rejects, with nothing written, if the database does not respond.
   */
  async addFrom(connection: Connection, resumeFrom: string | undefined): Promise<() => void> {
    const subscription = new Subscription(this.#deps, connection);
    // Registered before the query: events that are committed after it arrive here, and wait.
    const opened = subscription.open(resumeFrom);
    this.#enter(subscription);
    try {
      await opened;
    } catch (error) {
      this.#leave(subscription);
      throw error;
    }
    return () => this.#leave(subscription);
  }

  counts(): Readonly<HubCounts> {
    return { ...this.#counts };
  }

  /** Closes all connections and unsubscribes from the bus. */
  close(): void {
    this.#unsubscribe();
    this.#waiting = [];
    for (const subscriptions of [...this.#users.values()])
      for (const one of [...subscriptions]) one.close('shutdown');
  }

  #enter(subscription: Subscription): void {
    const { userId, kind, exclusive, tokenId } = subscription.connection;
    const others = this.#users.get(userId) ?? new Set();
    this.#users.set(userId, others);
    const replaced = exclusive ? [...others].filter(({ connection }) => connection.tokenId === tokenId) : [];
    others.add(subscription);
    this.#counts[kind] += 1;
    sockets.inc({ transport: TRANSPORT[kind] });
    for (const one of replaced) this.#dismiss(one, 'replaced');
    if (tokenId !== undefined && this.#discarded.has(tokenId)) this.#dismiss(subscription, 'token_discarded');
    if (this.#deleted.has(userId)) this.#dismiss(subscription, 'user_deleted');
    if (others.size > MAX_CONNECTIONS_PER_USER) {
      const [oldest] = others;
      if (oldest !== undefined) this.#dismiss(oldest, 'too_many');
    }
  }

  #leave(subscription: Subscription): void {
    subscription.end();
    const { userId, kind } = subscription.connection;
    const others = this.#users.get(userId);
    if (others?.delete(subscription) !== true) return;
    this.#counts[kind] -= 1;
    sockets.dec({ transport: TRANSPORT[kind] });
    if (others.size === 0) this.#users.delete(userId);
  }

  #dismiss(
    subscription: Subscription,
    reason: 'replaced' | 'too_many' | 'token_discarded' | 'user_deleted' | 'behind',
  ): void {
    subscription.close(reason);
    this.#leave(subscription);
  }

  #receive(message: RealtimeMessage): void {
    switch (message.type) {
      case 'new':
        if (this.#anyConnected(message.userIds))
          this.#queue(toWaiting(message, this.#contentAtHand(message)));
        return;
      case 'new_elsewhere':
        if (this.#users.size > 0) this.#queue(toWaiting(message, this.#contents.get(message.broadcastId)));
        return;
      case 'changed':
        if (this.#users.has(message.userId)) this.#queue({ kind: 'changed', message });
        return;
      case 'many_changed':
        for (const one of this.#users.get(message.userId) ?? []) one.resync();
        return;
      case 'appearance_changed':
        this.#appearances = this.#appearances.then(() => this.#sendAppearance(message));
        return;
      case 'token_discarded':
        this.#discarded.set(message.tokenId, true);
        for (const one of [...(this.#users.get(message.userId) ?? [])]) {
          if (one.connection.tokenId === message.tokenId) this.#dismiss(one, 'token_discarded');
        }
        return;
      case 'user_deleted':
        this.#deleted.set(message.userId, true);
        for (const one of [...(this.#users.get(message.userId) ?? [])]) this.#dismiss(one, 'user_deleted');
        return;
      case 'project_moved':
        for (const subscriptions of [...this.#users.values()])
          for (const one of [...subscriptions])
            if (one.connection.projectId === message.projectId) this.#dismiss(one, 'behind');
        return;
      case 'user_restored':
        this.#deleted.delete(message.userId);
        return;
      case 'missing':
        this.#ceilingMs = Math.min(this.#ceilingMs, message.sinceMs);
        return;
      case 'missed':
        if (message.sinceMs !== undefined) this.#missed(message.sinceMs, message.untilMs);
        return; // else only settings
      default: // for other subscribers
    }
  }

  /** Sends the config of their inboxes to connected users. It is no event: a resume does not repeat it. */
  async #sendAppearance({ projectId, userId }: AppearanceChanged): Promise<void> {
    const shown = (userId === undefined ? [...this.#users.values()] : [this.#users.get(userId) ?? []])
      .flatMap((subscriptions) => [...subscriptions])
      .filter(({ connection }) => connection.projectId === projectId && connection.showsAppearance);
    if (shown.length === 0) return;
    try {
      const userIds = [...new Set(shown.map(({ connection }) => connection.userId))];
      const deps = { db: this.#db, sealer: this.#sealer };
      const configOf = await inboxConfigsOf(deps, { projectId, userIds });
      const frames = new Map<object, Frame | undefined>();
      for (const one of shown) {
        const config = configOf(one.connection.userId);
        if (!frames.has(config)) frames.set(config, appearanceFrame(config, this.#clock.now()));
        const frame = frames.get(config);
        if (frame !== undefined) one.deliver(frame, this.#ceilingMs);
      }
    } catch (error) {
      this.#log.error({ err: error }, 'the config of inboxes could not be sent; they get it when they open');
    }
  }

  #contentAtHand({ broadcastId, content }: NotificationsNew): string | undefined {
    const known = this.#contents.get(broadcastId);
    if (known !== undefined || content === undefined) return known;
    return this.#contents.put(broadcastId, content);
  }

  #missed(sinceMs: number, untilMs: number | undefined): void {
    // The link is back. Others publish `missed` while it is down, too.
    const isBack = sinceMs === this.#ceilingMs;
    this.#catchUp({ sinceMs, untilMs, isCapped: isBack });
    if (isBack) this.#ceilingMs = Number.POSITIVE_INFINITY;
  }

  #catchUp(missed: MissedTime): void {
    for (const subscriptions of this.#users.values()) for (const one of subscriptions) one.catchUp(missed);
  }

  #anyConnected(userIds: readonly string[]): boolean {
    return this.#users.size > 0 && userIds.some((userId) => this.#users.has(userId));
  }

  /** All messages pass one queue, so that a user's frames keep their order while some data is loaded. */
  #queue(waiting: Waiting): void {
    this.#waiting.push(waiting);
    if (this.#waiting.length > MAX_WAITING) this.#dropWaiting();
    if (!this.#isSending) void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    for (;;) {
      let done = 0;
      for (const waiting of this.#waiting) {
        if (!this.#send(waiting)) break;
        done += 1;
      }
      this.#waiting.splice(0, done);
      if (this.#waiting.length === 0) break;
      // Messages that are published in this turn of the event loop share the query.
      await new Promise<void>((resolve) => setImmediate(resolve));
      await this.#load(this.#waiting.slice(0, MAX_PER_LOAD));
    }
    this.#isSending = false;
  }

  /** Returns false if data has to be loaded first. */
  #send(waiting: Waiting): boolean {
    if (waiting.kind === 'changed') {
      this.#deliver([waiting.message.userId], () => changeFrame(waiting.message));
      return true;
    }
    if (waiting.userIds === undefined) return false;
    if (waiting.content === undefined) return !this.#anyConnected(waiting.userIds);
    this.#deliver(waiting.userIds, newFrames(waiting.broadcastId, waiting.sentAtMs, waiting.content));
    return true;
  }

  #deliver(userIds: readonly string[], frameOf: (userId: string) => ReturnType<typeof changeFrame>): void {
    for (const userId of userIds) {
      const subscriptions = this.#users.get(userId);
      if (subscriptions === undefined) continue;
      const frame = frameOf(userId);
      for (const one of subscriptions) one.deliver(frame, this.#ceilingMs);
    }
  }

  async #load(batch: readonly Waiting[]): Promise<void> {
    try {
      await this.#loadUsers(
        batch.filter((one) => one.kind === 'new' && one.userIds === undefined) as WaitingNew[],
      );
      const lacking = batch.filter(
        (one) => one.kind === 'new' && one.content === undefined && this.#anyConnected(one.userIds ?? []),
      ) as WaitingNew[];
      const contents = await this.#contents.load(lacking.map(({ broadcastId }) => broadcastId));
      for (const one of lacking) one.content = contents.get(one.broadcastId) ?? '';
    } catch (error) {
      this.#log.error(
        { err: error },
        'data of messages could not be loaded; connections read what they missed from the database',
      );
      this.#dropWaiting();
    }
  }

  async #loadUsers(batch: readonly WaitingNew[]): Promise<void> {
    if (batch.length === 0) return;
    const rows = await this.#db.query<{ broadcast_id: string; page: number; user_ids: string[] }>(
      selectUsers,
      [batch.map(({ broadcastId }) => broadcastId), batch.map(({ page }) => page ?? null)],
    );
    const connected = rows.map((row) => ({
      ...row,
      user_ids: row.user_ids.filter((userId) => this.#users.has(userId)),
    }));
    for (const one of batch) {
      one.userIds = connected
        .filter(
          (row) => row.broadcast_id === one.broadcastId && (one.page === undefined || row.page === one.page),
        )
        .flatMap((row) => row.user_ids);
    }
  }

  #dropWaiting(): void {
    const times = this.#waiting.map((one) => (one.kind === 'new' ? one.sentAtMs : one.message.atMs));
    this.#waiting = [];
    if (times.length > 0) this.#catchUp({ sinceMs: times.reduce((a, b) => Math.min(a, b)), isCapped: false });
  }
}

type Waiting = WaitingNew | { kind: 'changed'; message: NotificationChanged };

interface WaitingNew {
  kind: 'new';
  broadcastId: string;
  page: number | undefined;
  sentAtMs: number;
  userIds: readonly string[] | undefined;
  content: string | undefined;
}

function toWaiting(
  message: NotificationsNew | NotificationsNewElsewhere,
  content: string | undefined,
): WaitingNew {
  const { broadcastId, page, sentAtMs } = message;
  const userIds = message.type === 'new' ? message.userIds : undefined;
  return { kind: 'new', broadcastId, page, sentAtMs, userIds, content };
}

// Primary key of broadcast_users (broadcast_id, page).
const selectUsers = sql(
  'select_realtime_users',
  `select b.broadcast_id, b.page, b.user_ids
  from (select distinct broadcast_id, page from unnest($1::uuid[], $2::integer[]) as w (broadcast_id, page)) w
  join broadcast_users b on b.broadcast_id = w.broadcast_id and (w.page is null or b.page = w.page)`,
);
