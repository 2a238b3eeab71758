import {
  type Transport as Api,
  type ApiRequest,
  BelfryError,
  createTransport,
  type InboxIntegrationConfig,
  type UnreadCount,
  type UserPreferences,
  type UserPreferencesInput,
} from '@belfry/sdk';
import { isOffline } from './browser.ts';
import { deferred } from './deferred.ts';
import { type Entry, Journal } from './journal.ts';
import { NotificationList, type NotificationPage, type PageQuery } from './list.ts';
import { backoffMs, Live } from './live.ts';
import {
  arrival,
  CHANGES,
  type Change,
  type ChangeName,
  changed,
  isListed,
  isUnread,
} from './notification.ts';
import { Observable } from './observable.ts';
import { createOrder } from './order.ts';
import { userOf } from './token.ts';
import type { Connection, LiveEvent, Opening, Transport } from './transport.ts';
import type { InboxFilter, Notification } from './types.ts';

export interface InboxOptions {
  /** The address of the API, with its version: `https://notify.example.com/v2`. */
  baseUrl: string;
  /** The User JWT, or a function that returns it. The function is called before every attempt. */
  token: string | (() => string | Promise<string>);
  /** Names this inbox in the changes that it makes. @default a random name */
  clientId?: string | undefined;
  /** How many notifications a page of a list has, 1 to 100. @default 50 */
  pageSize?: number | undefined;
  /** How changes arrive, the best way first. @default ['websocket', 'sse', 'polling'] */
  transports?: readonly Transport[] | undefined;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

export interface InboxSnapshot {
  readonly connection: Connection;
  /** How changes arrive; undefined while nothing is connected. */
  readonly transport: Transport | undefined;
  /** Undefined until they are known. */
  readonly counts: { readonly unread: number | undefined; readonly unseen: number | undefined };
  /** The theme, images and locale of the project. */
  readonly appearance: InboxIntegrationConfig | undefined;
  readonly preferences: UserPreferences | undefined;
  /** Why the last action failed. */
  readonly error: Error | undefined;
}

/** Selects what an action on all notifications changes. */
export type BulkFilter = Pick<InboxFilter, 'category' | 'topic'>;

type ErrorListener = (error: Error) => void;
type NewListener = (notification: Notification) => void;

const TRANSPORTS: readonly Transport[] = ['websocket', 'sse', 'polling'];
// If no stream opens within this time, what is shown is fetched without.
const READY_TIMEOUT_MS = 3_000;
const MAX_ANNOUNCED = 200;
// Many changes in a row make one count, and not more than one in this time: a user may have many tabs.
const COUNT_AFTER_MS = 500;
const COUNT_EVERY_MS = 5_000;
// What the rate limit refuses for longer is reported at once, and fetched later.
const MAX_RETRY_AFTER_MS = 2_000;
// An action on all may lack what arrived so shortly before it: the server had not yet written that when the
// action began. What is seen is not worth a request for each arrival.
const BULK_MARGIN_MS = 5_000;
// Without data for this time a stream is lost, so one that catches up has no longer pauses.
const CATCH_UP_MS = 40_000;

/**
 * The inbox of a user. It connects with the first listener and disconnects with the last. Actions change the
 * snapshots at once; if the server rejects one, the change is undone, and the promise rejects.
 */
export class Inbox {
  readonly getSnapshot: () => InboxSnapshot;
  readonly subscribe: (listener: () => void) => () => void;
  readonly clientId: string;
  readonly #pageSize: number;
  readonly #api: Api;
  readonly #options: InboxOptions & { baseUrl: string };
  readonly #state: Observable<InboxSnapshot>;
  readonly #journal = new Journal();
  readonly #lists = new Map<string, NotificationList>();
  readonly #newListeners = new Set<NewListener>();
  readonly #errorListeners = new Set<ErrorListener>();
  readonly #announced = new Set<string>();
  #live: Live | undefined;
  /** Orders the changes of notifications, by their id. */
  readonly #inOrder = createOrder();
  readonly #preferencesInOrder = createOrder();
  /** The preferences without the changes that are being saved. */
  #preferences: UserPreferences | undefined;
  readonly #saving = new Set<UserPreferencesInput>();
  #user: unknown;
  #activeLists = 0;
  #isClosed = false;
  /** While the first stream opens, nothing is fetched: it brings what is shown. */
  #opening: ReturnType<typeof deferred<Opening | undefined>> | undefined;
  #clockOffsetMs = 0;
  /** By a clock that is never set back. */
  #countedAt = -COUNT_EVERY_MS;
  /** What will be fetched later. */
  readonly #planned = new Set<() => Promise<unknown>>();
  /** Rises with everything that makes counts stale that are being fetched. */
  #countsVersion = 0;
  /** When an event last brought the state of a notification: while a stream catches up, or of a new one. */
  #stateAt = 0;
  /** How often in a row what a server refused was fetched once more. */
  #recoveries = 0;
  /** Whether a request failed that fetches what is shown. */
  #isStale = false;
  /** Resolves when the lists are fetched that were last requested. */
  #refreshing: Promise<unknown> = Promise.resolve();

  constructor(options: InboxOptions) {
    const baseUrl = new URL(options.baseUrl, globalThis.location?.href ?? 'http://localhost').href.replace(
      /\/+$/,
      '',
    );
    this.#options = { ...options, baseUrl };
    this.clientId = options.clientId ?? String(Math.random());
    this.#pageSize = options.pageSize ?? 50;
    this.#api = createTransport({
      baseUrl,
      token: this.#token,
      clientId: this.clientId,
      fetch: (input, init) => (options.fetch ?? fetch)(input, { ...init, keepalive: init?.method !== 'GET' }),
      maxRetries: 2,
    });
    this.#state = new Observable<InboxSnapshot>(
      {
        connection: 'connecting',
        transport: undefined,
        counts: { unread: undefined, unseen: undefined },
        appearance: undefined,
        preferences: undefined,
        error: undefined,
      },
      () => this.#update(),
      () => this.#update(),
    );
    this.getSnapshot = this.#state.getSnapshot;
    this.subscribe = this.#state.subscribe;
  }

  /** Rejects the token of another user: what is shown, and the actions that wait, are not theirs. */
  readonly #token = async (): Promise<string> => {
    const { token } = this.#options;
    const given = typeof token === 'string' ? token : await token();
    const user = userOf(given);
    this.#user ??= user;
    if (user !== undefined && user !== this.#user)
      throw new BelfryError('the token is that of another user', { code: 'unauthorized', status: 401 });
    return given;
  };

  /** Returns the list of a filter. It is the same object for the same filter. */
  readonly list = (filter: InboxFilter = {}): NotificationList => {
    const { status, category, topic } = filter;
    const key = keyOf(filter);
    const list =
      this.#lists.get(key) ??
      new NotificationList({
        filter: { status, category, topic },
        journal: this.#journal,
        pageSize: this.#pageSize,
        fetchPage: (query) => this.#fetchPage(query),
        onArrived: (notifications) => {
          for (const one of notifications) if (one.status === 'unseen') this.#announce(one);
        },
        onActive: (isActive) => {
          this.#activeLists += isActive ? 1 : -1;
          this.#update();
          if (isActive && this.#live !== undefined && list.getSnapshot().pages.length > 0)
            void list.refresh().catch(() => {});
        },
      });
    this.#lists.set(key, list);
    return list;
  };

  /** Calls the listener with each notification that arrives. Returns a function that ends this. */
  readonly onNew = (listener: NewListener): (() => void) => {
    this.#newListeners.add(listener);
    return () => this.#newListeners.delete(listener);
  };

  /** Calls the listener with each error. Returns a function that ends this. */
  readonly onError = (listener: ErrorListener): (() => void) => {
    this.#errorListeners.add(listener);
    return () => this.#errorListeners.delete(listener);
  };

  readonly markRead = (id: string): Promise<void> => this.#act('read', id, '/read');
  readonly markUnread = (id: string): Promise<void> => this.#act('unread', id, '/unread');
  readonly markSeen = (id: string): Promise<void> => this.#act('seen', id, '/seen');
  readonly archive = (id: string): Promise<void> => this.#act('archived', id, '/archive');
  readonly unarchive = (id: string): Promise<void> => this.#act('unarchived', id, '/unarchive');
  /** Deletes a notification for good. */
  readonly remove = (id: string): Promise<void> => this.#act('delete', id);

  /** Hides a notification until a time, when it returns as a new one; `null` returns it now. */
  readonly snooze = (id: string, until: Date | null): Promise<void> => {
    const snoozed_until = until?.toISOString() ?? null;
    const change = (): Change =>
      until === null ? { snoozed_until, read_at: null, seen_at: null } : { snoozed_until, archived_at: null };
    return this.#change([id], change, () =>
      this.#send('POST', notificationPath(id, '/snooze'), { body: { until: snoozed_until } }),
    );
  };

  readonly markAllRead = (filter: BulkFilter = {}): Promise<void> => this.#actOnAll('read', filter);
  readonly markAllSeen = (filter: BulkFilter = {}): Promise<void> => this.#actOnAll('seen', filter);
  readonly archiveAll = (filter: BulkFilter = {}): Promise<void> =>
    this.#actOnAll('archived', filter, 'archive');

  /** Records that the user followed a link of the notification. */
  readonly recordClick = (id: string): Promise<void> =>
    this.#send<void>('POST', notificationPath(id, '/click'), { body: {} }).catch(this.#fail);

  /** Fetches the preferences into the snapshot. */
  readonly loadPreferences = async (): Promise<void> => {
    const opening = await this.#opening?.promise;
    if (opening?.preferences !== undefined) return;
    const load = () => this.#send<UserPreferences>('GET', PREFERENCES);
    this.#showPreferences(await this.#preferencesInOrder(load));
  };

  /** Saves what is in the change, and keeps the other preferences. */
  readonly savePreferences = async (change: UserPreferencesInput): Promise<void> => {
    this.#saving.add(change);
    this.#showPreferences();
    const save = () => this.#send('PUT', PREFERENCES, { body: change });
    try {
      await this.#preferencesInOrder(save).finally(() => this.#saving.delete(change));
      if (this.#preferences !== undefined) this.#preferences = merged(this.#preferences, change);
    } catch (error) {
      this.#showPreferences();
      // The server may have saved them nevertheless.
      void this.loadPreferences().catch(() => {});
      this.#rethrow(error as Error);
    }
  };

  #showPreferences(preferences = this.#preferences): void {
    this.#preferences = preferences;
    if (preferences !== undefined)
      this.#state.set({ preferences: [...this.#saving].reduce(merged, preferences) });
  }

  readonly dismissError = (): void => this.#state.set({ error: undefined });

  /** Fetches the counts and what is shown. */
  readonly refresh = async (): Promise<void> => {
    this.#isStale = false;
    await Promise.all([this.#count(), this.#refreshLists()]);
  };

  /** Fetches the lists that are shown, or only those of a status, which an action on all may have filled. */
  async #refreshLists(byStatus = false): Promise<void> {
    const lists = [...this.#lists.values()].filter((one) => one.isActive && (!byStatus || one.filter.status));
    this.#refreshing = Promise.all(lists.map((list) => list.refresh()));
    await this.#refreshing;
  }

  /** The time of the server, in milliseconds: the clock of the browser may be wrong. */
  readonly now = (): number => Date.now() + this.#clockOffsetMs;

  /** Ends the connection for good. */
  readonly close = (): void => {
    this.#isClosed = true;
    this.#update();
  };

  /** Connects while there are listeners. */
  #update(): void {
    const isWanted = !this.#isClosed && (this.#state.hasListeners || this.#activeLists > 0);
    if (isWanted && this.#live === undefined) this.#start();
    if (isWanted || this.#live === undefined) return;
    this.#live.close();
    this.#live = undefined;
    this.#endOpening();
  }

  #start(): void {
    const { baseUrl, transports = TRANSPORTS } = this.#options;
    const fetchAll = async () => {
      if (this.#endOpening()) void this.#loadAppearance();
      await this.refresh();
    };
    const fetchWithout = () => {
      if (this.#opening !== undefined) fetchAll().catch(() => {});
    };
    this.#opening = deferred();
    const timer = setTimeout(fetchWithout, READY_TIMEOUT_MS);
    void this.#opening.promise.then(() => clearTimeout(timer));
    this.#live = new Live({
      api: this.#api,
      baseUrl,
      token: this.#token,
      transports,
      onEvent: (event) => this.#receive(event),
      listed: () => {
        const all = this.#lists.get(ALL);
        return all?.isActive && all.getSnapshot().pages.length === 0 ? this.#pageSize : 0;
      },
      onState: (connection, transport) => {
        this.#state.set({ connection, transport });
        if (connection === 'offline' || connection === 'unauthorized') fetchWithout();
      },
      onEnd: () => {
        this.close();
        this.#state.set({ connection: 'unauthorized', transport: undefined });
      },
      onReady: (opening) => this.#open(opening),
      poll: fetchAll,
    });
  }

  /** A stream is open. What was fetched before may lack changes, unless the stream was resumed. */
  #open(opening: Opening | undefined): void {
    const { config, counts, preferences, now } = opening ?? {};
    if (now) this.#clockOffsetMs = Date.parse(now) - Date.now();
    this.#showPreferences(preferences);
    if (config !== undefined) this.#state.set({ appearance: config });
    else void this.#loadAppearance();
    if (counts !== undefined) {
      this.#countsVersion += 1; // those that are being fetched
      this.#setCounts(counts);
    }
    this.#endOpening(opening);
    // A resumed stream does not repeat events for which a request failed.
    if (this.#isStale && this.#preferences !== undefined) void this.loadPreferences().catch(() => {});
    if (opening === undefined || this.#isStale) void this.refresh().catch(() => {});
    else if (counts !== undefined) void this.#refreshLists().catch(() => {});
  }

  /** Returns false if it has ended before. */
  #endOpening(opening?: Opening): boolean {
    const ended = this.#opening;
    this.#opening = undefined;
    ended?.resolve(opening);
    return ended !== undefined;
  }

  async #fetchPage(query: PageQuery): Promise<NotificationPage> {
    const opening = await this.#opening?.promise;
    const { notifications, has_more: hasMore = false } = opening ?? {};
    if (notifications !== undefined && query.starting_after === undefined && keyOf(query) === ALL)
      return { data: notifications, hasMore };
    const { data, links } = await this.#send<Listed>('GET', '/notifications', { query });
    return { data, hasMore: links.next !== null };
  }

  #receive(event: LiveEvent): void {
    if (event.name === 'resync') void this.refresh().catch(() => {});
    else if (event.name === 'inbox/theme') this.#state.set({ appearance: event.data });
    // A stream that catches up may bring states from before an own change. The event of the change follows.
    // After a new notification own events are applied, too, which is not needed but changes nothing.
    // Events of newer servers may have no data.
    else if (
      event.data &&
      (event.data.client_id !== this.clientId || Date.now() - this.#stateAt < CATCH_UP_MS)
    )
      this.#receiveChange(event);
  }

  /** A change that is not shown yet. */
  #receiveChange({ name, timestamp, data }: Exclude<LiveEvent, { name: 'resync' | 'inbox/theme' }>): void {
    const action = name.slice('notifications/'.length);
    const isNew = action === 'new';
    if (data.notification !== undefined) {
      this.#stateAt = Date.now();
      this.#arrive(data.notification, isNew);
      return;
    }
    if (isNew || action === 'snoozed') {
      void this.#fetchOne(data.id, isNew);
      return;
    }
    const [changeName, all] = action.split('/');
    const of = CHANGES[changeName === 'archive' ? 'archived' : (changeName as ChangeName)];
    if (of === undefined) return;
    if (all !== 'all') {
      this.#apply((one) => (one.id === data.id ? of(one, timestamp) : undefined), data.id);
      // It may enter a list for which it was not loaded.
      if (action !== 'delete' && action !== 'seen' && this.#find(data.id) === undefined)
        void this.#fetchOne(data.id, false);
      return;
    }
    const isNewest = (one: Notification) =>
      changeName !== 'seen' && arrival(one) > Date.parse(timestamp) - BULK_MARGIN_MS;
    const hasNewest = this.#loaded().some(isNewest);
    this.#apply((one) => (isInBulk(one) && !isNewest(one) ? of(one, timestamp) : undefined));
    // Lists that are being fetched may lack the action.
    const fetched = this.#refreshing.catch(() => {});
    void fetched.then(() => this.#refreshLists(!hasNewest)).catch(() => {});
  }

  /** A notification as the server has it now. */
  #arrive(notification: Notification, isNew: boolean): void {
    const before = this.#find(notification.id);
    this.#journal.record({ arrived: this.#commit([{ before, after: notification }]) });
    // One that was fetched before its event, or that was not known, may be counted already or not.
    if (!before !== isNew) this.#countSoon();
    else if (isNew) this.#addCounts(notification, 1);
    if (isNew && notification.status === 'unseen') this.#announce(notification);
  }

  async #fetchOne(id: string, isNew: boolean): Promise<void> {
    // A list that is shown later is fetched then.
    if (!isNew && this.#activeLists === 0) return this.#countSoon();
    try {
      this.#arrive(await this.#send<Notification>('GET', notificationPath(id)), isNew);
    } catch {
      // It was deleted, or the next stream fetches it.
    }
  }

  /** Applies a change that the server has made. */
  #apply(change: Required<Entry>['change'], id?: string): void {
    const before = this.#loaded(id ? new Set([id]) : undefined);
    this.#journal.record({ change, moved: this.#commit(changesOf(before, change)) });
    // What is not loaded may have changed as well.
    if (id === undefined || before.length === 0) this.#countSoon();
  }

  /**
   * Sends a request. One that only fetches reports its error here, because the user did not act. Others wait
   * while the browser is offline, unless they change all notifications.
   */
  #send<Reply>(
    method: ApiRequest['method'],
    path: string,
    content: Pick<ApiRequest, 'query' | 'body'> & { isBulk?: boolean } = {},
  ): Promise<Reply> {
    const options = { maxRetryAfterMs: method === 'GET' ? MAX_RETRY_AFTER_MS : undefined };
    return this.#api.send({ method, path, ...content }, options).catch(async (error) => {
      if (method === 'GET' && !isNotFound(error)) {
        this.#isStale = true;
        this.#report(error);
        // The stream is open, so nothing else would fetch it.
        if (error.retryAfterMs) this.#plan(this.#recover, error.retryAfterMs + backoffMs(this.#recoveries));
      } else if (!content.isBulk && error.status === undefined && isOffline()) {
        await new Promise((resolve) => addEventListener('online', resolve, { once: true }));
        // If nothing shows this inbox any more, the token may be that of another user.
        if (this.#live) return this.#send(method, path, content);
      }
      throw error;
    }) as Promise<Reply>;
  }

  #act(name: ChangeName, id: string, path?: string): Promise<void> {
    const at = new Date().toISOString();
    const send = () =>
      this.#send(path ? 'POST' : 'DELETE', notificationPath(id, path)).catch((error) => {
        // Deleted before, perhaps by an attempt whose response was lost.
        if (path || !isNotFound(error)) throw error;
      });
    return this.#change([id], (one) => CHANGES[name](one, at), send, { name });
  }

  async #actOnAll(
    name: 'read' | 'seen' | 'archived',
    { category, topic }: BulkFilter,
    path: string = name,
  ): Promise<void> {
    // Sent later, it would change what has arrived meanwhile.
    if (isOffline()) this.#rethrow(new BelfryError('offline', { code: 'network_error' }));
    const filter = { category, topic };
    const send = () => this.#send('POST', `/notifications/${path}`, { query: filter, isBulk: true });
    const at = new Date().toISOString();
    const isMeant = (one: Notification) => isInBulk(one) && isListed(one, filter);
    const ids = this.#loaded()
      .filter(isMeant)
      .map(({ id }) => id);
    // Those in a response that has not arrived yet are seen as well.
    if (name === 'seen')
      this.#journal.record({ change: (one) => (isMeant(one) ? CHANGES.seen(one, at) : undefined) });
    const { unread } = this.getSnapshot().counts;
    const counts = category || topic ? undefined : { unseen: 0, unread: name === 'seen' ? unread : 0 };
    return this.#change(ids, (one) => CHANGES[name](one, at), send, { name, isBulk: true, counts });
  }

  /** Changes notifications at once, and undoes that if the server rejects it. */
  async #change(
    ids: readonly string[],
    of: (notification: Notification) => Change,
    send: () => Promise<unknown>,
    { name, isBulk = false, counts }: ChangeOptions = {},
  ): Promise<void> {
    const wanted = new Set(ids);
    const countsBefore = this.getSnapshot().counts;
    const countedAt = this.#countedAt;
    const change = (one: Notification) => (wanted.has(one.id) ? of(one) : undefined);
    const changes = changesOf(this.#loaded(wanted), change);
    const end = this.#journal.begin({ change, moved: this.#commit(changes) });
    if (counts !== undefined) this.#setCounts(counts);
    const version = this.#countsVersion;
    try {
      // "Seen" may come before or after others, and "read" before or after those of all. So they do not
      // wait: a link may leave the page.
      await (name === 'seen' ? send() : this.#inOrder(send, isBulk ? undefined : ids[0], name === 'read'));
      end('succeeded');
      if (isBulk) void this.#refreshLists(true).catch(() => {});
      // Counts that were fetched meanwhile may lack the change.
      if (isBulk || changes.length < wanted.size || version < this.#countsVersion) this.#countSoon();
    } catch (error) {
      end('failed');
      if (!isBulk && isNotFound(error)) {
        // Deleted meanwhile, so there is nothing to restore.
        const discarded_at = new Date().toISOString();
        this.#apply(({ id }) => (wanted.has(id) ? { discarded_at } : undefined));
        this.#rethrow(error as Error);
      }
      const { counts: now } = this.getSnapshot();
      const undone = changes.filter(({ after }) => (this.#find(after.id) ?? after) === after);
      const restored = undone.map(({ before, after }) => ({ before: after, after: before ?? after }));
      this.#journal.record({ moved: this.#commit(restored) });
      // What has arrived meanwhile stays counted.
      if (counts !== undefined)
        this.#setCounts(countedAt === this.#countedAt ? restoredCounts(countsBefore, counts, now) : now);
      // Without a response of the server, it may have done it.
      if ((error as { status: number }).status < 500) this.#countSoon();
      else void this.refresh().catch(() => {});
      (name === 'seen' ? this.#fail : this.#rethrow)(error as Error);
    }
  }

  /** Shows changed notifications in all lists and counts. Returns them as they are now. */
  #commit(changes: Changes): Notification[] {
    const notifications = changes.map(({ after }) => after);
    for (const list of this.#lists.values()) list.update(notifications);
    for (const { before, after } of changes) {
      if (before === undefined) continue;
      this.#addCounts(before, -1);
      this.#addCounts(after, 1);
    }
    return notifications;
  }

  #addCounts(notification: Notification, sign: 1 | -1): void {
    if (notification.discarded_at !== null) return;
    const { unread, unseen } = this.getSnapshot().counts;
    this.#countsVersion += 1;
    const add = (count: number | undefined, applies: boolean) =>
      count === undefined || !applies ? count : Math.max(0, count + sign);
    this.#setCounts({
      unread: add(unread, isUnread(notification)),
      unseen: add(unseen, notification.status === 'unseen'),
    });
  }

  /** Fetches something later, once. If that fails, or nothing is connected then, the next stream does. */
  #plan(fetchIt: () => Promise<unknown>, inMs: number): void {
    if (this.#planned.has(fetchIt)) return;
    this.#planned.add(fetchIt);
    setTimeout(() => {
      this.#planned.delete(fetchIt);
      // A user that was deleted is not restored before the stream reports that.
      if (!this.getSnapshot().transport) this.#isStale = true;
      else if (this.#live) fetchIt().catch(() => {});
    }, inMs);
  }

  /** Fetches what is shown, and the preferences. */
  readonly #recover = async () => {
    this.#recoveries += 1;
    await Promise.all([this.refresh(), this.loadPreferences()]);
    this.#recoveries = 0;
  };

  #countSoon(): void {
    this.#countsVersion += 1; // those that are being fetched
    this.#plan(this.#count, Math.max(COUNT_AFTER_MS, this.#countedAt + COUNT_EVERY_MS - performance.now()));
  }

  /** Fetches the counts, and once more if something changed meanwhile. */
  readonly #count = async (): Promise<void> => {
    this.#countedAt = performance.now();
    this.#countsVersion += 1;
    const version = this.#countsVersion;
    const [{ count: unread }, { count: unseen }] = await Promise.all([
      this.#send<UnreadCount>('GET', '/notifications/unread/count'),
      this.#send<UnreadCount>('GET', '/notifications/unseen/count'),
    ]);
    if (version === this.#countsVersion) this.#setCounts({ unread, unseen });
    else this.#countSoon();
  };

  #setCounts(counts: InboxSnapshot['counts']): void {
    const before = this.getSnapshot().counts;
    if (counts.unread !== before.unread || counts.unseen !== before.unseen) this.#state.set({ counts });
  }

  async #loadAppearance(): Promise<void> {
    try {
      this.#state.set({ appearance: await this.#send<InboxIntegrationConfig>('POST', APPEARANCE) });
    } catch {
      // The inbox works without a theme, and reads it with the next connection.
    }
  }

  #announce(notification: Notification): void {
    const key = `${notification.id} ${notification.sent_at}`; // a snoozed one is new when it returns
    if (this.#announced.has(key)) return;
    const [oldest = ''] = this.#announced;
    if (this.#announced.size >= MAX_ANNOUNCED) this.#announced.delete(oldest);
    this.#announced.add(key);
    for (const listener of this.#newListeners) listener(notification);
  }

  #find(id: string): Notification | undefined {
    return this.#loaded(new Set([id]))[0];
  }

  /** All loaded notifications, or those of some ids. A list that is not shown may have an older state. */
  #loaded(ids?: ReadonlySet<string>): Notification[] {
    const all = [...this.#lists.values()]
      .sort((a, b) => +a.isActive - +b.isActive)
      .flatMap((list) => list.getSnapshot().notifications);
    const wanted = ids ? all.filter(({ id }) => ids.has(id)) : all;
    return [...new Map(wanted.map((one) => [one.id, one])).values()];
  }

  #report(error: Error): void {
    for (const listener of this.#errorListeners) listener(error);
  }

  /** What an inbox does by itself failed, which needs no message to the user. */
  readonly #fail = (error: Error): never => {
    this.#report(error);
    throw error;
  };

  /** An action of the user failed. */
  readonly #rethrow = (error: Error): never => {
    this.#state.set({ error });
    return this.#fail(error);
  };
}

/** Creates the inbox of a user. It connects when something subscribes. */
export function createInbox(options: InboxOptions): Inbox {
  return new Inbox(options);
}

interface Listed {
  data: Notification[];
  links: { next: string | null };
}

/** Identifies the list of a filter. */
const keyOf = ({ status, category, topic }: InboxFilter) =>
  JSON.stringify([status, category || undefined, topic || undefined]);
/** The list that a stream brings when it opens. */
const ALL = keyOf({});

const PREFERENCES = '/channels/user_preferences';
const APPEARANCE = '/integrations/inbox/installations/start';
const notificationPath = (id: string, action = '') => `/notifications/${encodeURIComponent(id)}${action}`;

const isNotFound = (error: unknown) => (error as Partial<BelfryError>).status === 404;

interface ChangeOptions {
  name?: ChangeName;
  isBulk?: boolean;
  counts?: InboxSnapshot['counts'] | undefined;
}

type Counts = InboxSnapshot['counts'];
type Changes = readonly { before: Notification | undefined; after: Notification }[];

/** Actions on all notifications leave out the archive and what is snoozed. */
const isInBulk = ({ status }: Notification) => status !== 'archived' && status !== 'snoozed';

function changesOf(notifications: readonly Notification[], change: Required<Entry>['change']): Changes {
  return notifications
    .map((before) => ({ before, after: changed(before, change(before)) }))
    .filter(({ before, after }) => after !== before);
}

/** The counts before an action on all that failed, with what has changed since it set others. */
function restoredCounts(before: Counts, set: Counts, now: Counts): Counts {
  const restored = (name: keyof Counts) =>
    before[name] === undefined ? now[name] : before[name] + (now[name] ?? 0) - (set[name] ?? 0);
  return { unread: restored('unread'), unseen: restored('unseen') };
}

function merged(preferences: UserPreferences, change: UserPreferencesInput): UserPreferences {
  const { categories = [], ...others } = change;
  return {
    ...preferences,
    ...others,
    categories: preferences.categories.map((category) => {
      const changes = categories.flatMap(({ key, channels = [] }) => (key === category.key ? channels : []));
      return {
        ...category,
        channels: category.channels.map((channel) => ({
          ...channel,
          ...changes.findLast(({ name }) => name === channel.name),
        })),
      };
    }),
  };
}
