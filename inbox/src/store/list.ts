import type { Journal } from './journal.ts';
import { compareArrival, isListed } from './notification.ts';
import { Observable } from './observable.ts';
import type { InboxFilter, Notification } from './types.ts';

/** A page of a list. Far from what is shown it is released: it keeps its place, but not its notifications. */
export interface Page {
  readonly key: number;
  /** Undefined while the page is released. */
  readonly notifications: readonly Notification[] | undefined;
  /** How many notifications it has. While it is released, only those that arrive above them are added. */
  readonly size: number;
}

export interface ListSnapshot {
  /** `loading` only before the first page. */
  readonly status: 'loading' | 'ready' | 'error';
  /** Why the last request for a page failed. */
  readonly error: Error | undefined;
  /** Those of all pages that are not released, newest arrival first. */
  readonly notifications: readonly Notification[];
  readonly pages: readonly Page[];
  readonly hasMore: boolean;
  readonly isLoadingMore: boolean;
}

interface StoredPage extends Page {
  /** The cursor of the page: the id above its first notification. Undefined for the first page. */
  readonly after: string | undefined;
  /** The first notification, as it was when the page was loaded or extended. */
  readonly first: Notification | undefined;
  /** Where the page ends: its last notification as it was fetched, which may have left the list. */
  readonly last: Notification | undefined;
}

interface State extends ListSnapshot {
  readonly pages: readonly StoredPage[];
}

/** The query of a page. */
export type PageQuery = InboxFilter & { limit: number; starting_after: string | undefined };

export interface NotificationPage {
  readonly data: readonly Notification[];
  readonly hasMore: boolean;
}

export interface ListOptions {
  fetchPage: (query: PageQuery) => Promise<NotificationPage>;
  filter: InboxFilter;
  journal: Journal;
  pageSize: number;
  /** Called with notifications that a request found above those that were known, oldest first. */
  onArrived: (notifications: readonly Notification[]) => void;
  /** Called with the first listener, and after the last one unsubscribed. */
  onActive: (isActive: boolean) => void;
}

const EMPTY: State = {
  status: 'loading',
  error: undefined,
  notifications: [],
  pages: [],
  hasMore: false,
  isLoadingMore: false,
};

/** A list of notifications, in pages. It is kept up to date by the inbox that created it. */
export class NotificationList {
  readonly filter: InboxFilter;
  readonly getSnapshot: () => ListSnapshot;
  readonly subscribe: (listener: () => void) => () => void;
  readonly #options: ListOptions;
  readonly #state: Observable<State>;
  readonly #loading = new Map<number, Promise<void>>();
  #loadingMore: Promise<void> | undefined;
  #nextKey = 0;

  constructor(options: ListOptions) {
    this.#options = options;
    this.filter = options.filter;
    this.#state = new Observable(
      EMPTY,
      () => {
        options.onActive(true);
        if (this.#pages.length === 0) void this.loadMore().catch(() => {}); // in the snapshot
      },
      () => {
        options.onActive(false);
        this.#setOfUpdate(this.#pages);
      },
    );
    this.getSnapshot = this.#state.getSnapshot;
    this.subscribe = this.#state.subscribe;
  }

  get isActive(): boolean {
    return this.#state.hasListeners;
  }

  get #pages(): readonly StoredPage[] {
    return this.#state.getSnapshot().pages;
  }

  /** Fetches the next page, or the first one. Rejects if that fails; a later call retries it. */
  readonly loadMore = (): Promise<void> => {
    this.#loadingMore ??= this.#fetchMore().finally(() => {
      this.#loadingMore = undefined;
    });
    return this.#loadingMore;
  };

  /** The id below which the next page begins. */
  get #end(): string | undefined {
    return this.#pages.at(-1)?.last?.id;
  }

  async #fetchMore(): Promise<void> {
    if (this.#pages.length > 0 && !this.#state.getSnapshot().hasMore) return;
    const before = this.#pages.at(-1)?.last;
    const after = before?.id;
    this.#state.set({ isLoadingMore: true });
    try {
      const { notifications, hasMore, arrived, last = before } = await this.#fetch(after);
      if (this.#end !== after) return; // the list has become shorter
      const known = new Set(this.#state.getSnapshot().notifications.map(({ id }) => id));
      const fresh = notifications.filter(({ id }) => !known.has(id));
      const page = { ...this.#newPage(after, fresh), last };
      this.#set([...this.#pages, page], { status: 'ready', error: undefined, hasMore });
      this.update(arrived);
    } catch (error) {
      const status = this.#pages.length === 0 ? 'error' : 'ready';
      this.#state.set({ status, error: error as Error });
      throw error;
    } finally {
      this.#state.set({ isLoadingMore: false });
    }
  }

  /** Fetches all pages that are loaded. Rejects with the first error. */
  readonly refresh = async (): Promise<void> => {
    if (this.#pages.length === 0) return this.loadMore();
    for (const { key } of this.#pages) {
      const page = this.#find(key);
      if (page?.notifications !== undefined) await this.load(page);
    }
  };

  /** Fetches the notifications of a page that is released, or fetches them once more. */
  readonly load = (page: Page): Promise<void> => {
    const { key } = page;
    const running = this.#loading.get(key);
    if (running !== undefined) return running;
    const loading = this.#reload(key)
      .catch((error: Error) => {
        this.#state.set({ error });
        throw error;
      })
      .finally(() => this.#loading.delete(key));
    this.#loading.set(key, loading);
    return loading;
  };

  #find(key: number): StoredPage | undefined {
    return this.#pages.find((one) => one.key === key);
  }

  async #reload(key: number): Promise<void> {
    const page = this.#find(key);
    if (page === undefined) return;
    const found: Notification[] = [];
    let arrived: Notification[] = [];
    let after = page.after;
    for (;;) {
      const part = await this.#fetch(after);
      arrived = [...arrived, ...part.arrived];
      const index = this.#pages.findIndex((one) => one.key === key);
      const now = this.#pages[index];
      if (now === undefined) return;
      const next = this.#pages[index + 1];
      const end = part.ids.indexOf(now.last?.id ?? '') + 1 || part.ids.indexOf(next?.first?.id ?? '');
      const ends = next !== undefined && (end > 0 || part.ids[0] === next.first?.id);
      const ids = ends ? part.ids.slice(0, end) : part.ids;
      found.push(...part.notifications.filter(({ id }) => ids.includes(id)));
      const isAtEnd = next === undefined || !part.hasMore;
      if (!ends && !isAtEnd) {
        after = part.last?.id;
        if (found.length < now.size + 2 * this.#options.pageSize) continue;
        // The ends of the page have left the list or moved in it: start the list from the top.
        this.#set([], { hasMore: false });
        return this.#fetchMore();
      }
      const before = now.notifications ?? [];
      const following = ends ? this.#pages.slice(index + 1) : [];
      const hasMore = ends ? this.#state.getSnapshot().hasMore : part.hasMore;
      const last = (!ends && part.last) || now.last;
      const isReleased = page.notifications !== undefined && now.notifications === undefined; // meanwhile
      const notifications = isReleased ? undefined : sameOr(before, found);
      const loaded = { ...withThese({ ...now, last }, found), notifications };
      if (index === 0 && now.notifications !== undefined) this.#reportArrived(before, found);
      this.#set([...this.#pages.slice(0, index), loaded, ...following], {
        hasMore,
        error: undefined,
      });
      this.update(arrived);
      return;
    }
  }

  /** Drops the notifications of a page to save memory. */
  readonly release = (page: Page): void => {
    const pages = this.#pages.map((one) =>
      one.key === page.key && one.notifications !== undefined ? { ...one, notifications: undefined } : one,
    );
    this.#set(pages);
  };

  /** Replaces, adds or removes notifications, as the filter says. */
  update(notifications: readonly Notification[]): void {
    if (notifications.length === 0 || this.#pages.length === 0) return;
    const updates = new Map(notifications.map((one) => [one.id, one]));
    const kept = this.#pages.map((page) => {
      const loaded = page.notifications;
      if (loaded === undefined || !loaded.some(({ id }) => updates.has(id))) return page;
      const remaining = loaded.flatMap((one) => {
        const update = updates.get(one.id);
        if (update === undefined) return [one];
        if (!isListed(update, this.filter)) return [];
        if (update.sent_at !== one.sent_at) return []; // it is added at another place
        updates.delete(one.id);
        return [update];
      });
      return withThese(page, remaining);
    });
    const added = [...updates.values()].filter((one) => isListed(one, this.filter));
    let pages: readonly StoredPage[] = kept;
    for (const one of added.sort(compareArrival).reverse()) pages = this.#add(pages, one);
    this.#setOfUpdate(this.#split(pages));
  }

  /** A list that nothing shows keeps its first page. */
  #setOfUpdate(pages: readonly StoredPage[]): void {
    if (this.isActive || pages.length < 2) this.#set(pages);
    else this.#set(pages.slice(0, 1), { hasMore: true });
  }

  /** Adds a notification at its place, unless it stands below all that is loaded. */
  #add(pages: readonly StoredPage[], notification: Notification): readonly StoredPage[] {
    const isAbove = (one: Notification) => compareArrival(notification, one) < 0;
    const index = pages.findIndex(({ last }) => last !== undefined && isAbove(last));
    const { hasMore } = this.#state.getSnapshot();
    const target = index < 0 ? (hasMore ? -1 : pages.length - 1) : index;
    return pages.map((page, at) => {
      if (at !== target) return page;
      const { notifications, first, size } = page;
      if (notifications === undefined) {
        // Below its first one, a released page may have had it before.
        const isNew = !first || (notification.id !== first.id && isAbove(first));
        return isNew ? { ...page, first: notification, size: size + 1 } : page;
      }
      const place = notifications.findIndex(isAbove);
      return withThese(
        page,
        notifications.toSpliced(place < 0 ? notifications.length : place, 0, notification),
      );
    });
  }

  /** Divides a first page that has grown too long. */
  #split(pages: readonly StoredPage[]): readonly StoredPage[] {
    const [first, ...others] = pages;
    const { pageSize } = this.#options;
    if (first?.notifications === undefined || first.size <= 2 * pageSize) return pages;
    const middle = first.size - pageSize;
    const [upper, lower] = [first.notifications.slice(0, middle), first.notifications.slice(middle)];
    const bottom = withThese({ ...first, after: upper.at(-1)?.id }, lower);
    return this.#split([this.#newPage(undefined, upper), bottom, ...others]);
  }

  #newPage(after: string | undefined, notifications: readonly Notification[]): StoredPage {
    this.#nextKey += 1;
    return withThese({ key: this.#nextKey, after, last: notifications.at(-1) }, notifications);
  }

  async #fetch(after: string | undefined) {
    const { fetchPage, journal, pageSize, filter } = this.#options;
    const query = { ...filter, limit: pageSize, starting_after: after };
    const { result, notifications, arrived } = await journal.read(
      () => fetchPage(query),
      ({ data }) => data,
    );
    return {
      // A change that is under way may remove some from this list.
      notifications: notifications.filter((one) => isListed(one, filter)),
      ids: result.data.map(({ id }) => id),
      last: result.data.at(-1),
      hasMore: result.hasMore,
      arrived,
    };
  }

  #reportArrived(before: readonly Notification[], now: readonly Notification[]): void {
    const known = new Set(before.map(({ id }) => id));
    const [newest] = before;
    const arrived = now.filter(
      (one) => !known.has(one.id) && (newest === undefined || compareArrival(one, newest) < 0),
    );
    if (arrived.length > 0) this.#options.onArrived(arrived.reverse());
  }

  #set(pages: readonly StoredPage[], more: Partial<State> = {}): void {
    const now = this.#pages;
    const isSame = pages.length === now.length && pages.every((page, index) => page === now[index]);
    if (isSame) this.#state.set(more);
    else
      this.#state.set({ ...more, pages, notifications: pages.flatMap((page) => page.notifications ?? []) });
  }
}

/** The page with these notifications. */
function withThese(
  page: Pick<StoredPage, 'key' | 'after' | 'last'>,
  notifications: readonly Notification[],
): StoredPage {
  return { ...page, notifications, size: notifications.length, first: notifications[0] };
}

/** The loaded notifications. Each is the known object if nothing in it changed, so that it is not redrawn. */
function sameOr(known: readonly Notification[], loaded: readonly Notification[]): readonly Notification[] {
  const byId = new Map(known.map((one) => [one.id, one]));
  const merged = loaded.map((one) => {
    const before = byId.get(one.id);
    return before !== undefined && JSON.stringify(before) === JSON.stringify(one) ? before : one;
  });
  const isSame = merged.length === known.length && merged.every((one, index) => one === known[index]);
  return isSame ? known : merged;
}
