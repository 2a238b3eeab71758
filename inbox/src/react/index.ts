'use client';
import type { UserPreferences, UserPreferencesInput } from '@belfry/sdk';
import {
  createContext,
  createElement,
  type ReactElement,
  type ReactNode,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useSyncExternalStore,
} from 'react';
import type { BelfryInbox as BelfryInboxElement, BelfryInboxEvents } from '../element/define.ts';
import {
  createInbox,
  type Inbox,
  type InboxFilter,
  type InboxOptions,
  type InboxSnapshot,
  type ListSnapshot,
  type Notification,
  type NotificationList,
} from '../store/index.ts';
import { createWebPush, type WebPush, type WebPushOptions, type WebPushSnapshot } from '../web-push/index.ts';

const InboxContext = createContext<Inbox | undefined>(undefined);

/** The options of the store, or a store of your own. */
export type InboxProviderProps = { children?: ReactNode } & (InboxOptions | { inbox: Inbox });

/**
 * Provides an inbox to the hooks and components below. It connects while one of them is mounted. `token` may
 * change at any time; give the provider another `key` when another user logs in.
 */
export function InboxProvider({ children, ...options }: InboxProviderProps): ReactElement {
  const given = 'inbox' in options ? options.inbox : undefined;
  const token = useLatest('inbox' in options ? '' : options.token);
  const baseUrl = 'inbox' in options ? '' : options.baseUrl;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the other options are read once
  const inbox = useMemo(
    () => given ?? createInbox({ ...(options as InboxOptions), token: () => readToken(token.current) }),
    [given, baseUrl],
  );
  return createElement(InboxContext.Provider, { value: inbox }, children);
}

/** The inbox of the provider: its actions, and its lists. */
export function useInbox(): Inbox {
  const inbox = useContext(InboxContext);
  if (inbox === undefined) throw new Error('useInbox needs an <InboxProvider> above it');
  return inbox;
}

/** The state of the inbox: the connection, the counts, the theme, and the last error. */
export function useInboxState(): InboxSnapshot {
  return useStore(useInbox());
}

/** How many notifications are unread and unseen; undefined until they are known. */
export function useCounts(): InboxSnapshot['counts'] {
  return useInboxState().counts;
}

export interface UseNotifications extends ListSnapshot {
  loadMore: NotificationList['loadMore'];
  refresh: NotificationList['refresh'];
}

/** The notifications that match the filter, newest first, as they arrive and change. */
export function useNotifications({ status, category, topic }: InboxFilter = {}): UseNotifications {
  const inbox = useInbox();
  const list = useMemo(() => inbox.list({ status, category, topic }), [inbox, status, category, topic]);
  useStore(inbox); // connects it
  const { loadMore, refresh } = list;
  return { ...useStore(list), loadMore, refresh };
}

/** Calls the function for each notification that arrives. */
export function useNewNotification(onNew: (notification: Notification) => void): void {
  const inbox = useInbox();
  const latest = useLatest(onNew);
  useEffect(() => inbox.onNew((notification) => latest.current(notification)), [inbox, latest]);
}

export interface UsePreferences {
  /** Undefined until they are loaded. */
  preferences: UserPreferences | undefined;
  save: (change: UserPreferencesInput) => Promise<void>;
  error: Error | undefined;
}

/** The preferences of the user, which are loaded when the component is mounted. */
export function usePreferences(): UsePreferences {
  const inbox = useInbox();
  const { preferences, error } = useStore(inbox);
  useEffect(() => {
    inbox.loadPreferences().catch(() => {}); // the snapshot has the error
  }, [inbox]);
  return { preferences, save: inbox.savePreferences, error };
}

export interface UseWebPush extends WebPushSnapshot {
  enable: WebPush['enable'];
  disable: WebPush['disable'];
}

/** Whether this browser shows pushes of the user, and functions to change that. */
export function useWebPush(options: WebPushOptions): UseWebPush {
  const token = useLatest(options.token);
  const { baseUrl, serviceWorkerUrl, tokenUrl, homeUrl } = options;
  const push = useMemo(
    () =>
      createWebPush({ baseUrl, serviceWorkerUrl, tokenUrl, homeUrl, token: () => readToken(token.current) }),
    [baseUrl, serviceWorkerUrl, tokenUrl, homeUrl, token],
  );
  const { enable, disable } = push;
  return { ...useStore(push), enable, disable };
}

/** The properties and events of `<belfry-inbox>`. */
export interface BelfryInboxProps extends Partial<Pick<BelfryInboxElement, 'messages' | 'theme'>> {
  mode?: 'popover' | 'page' | 'embedded' | undefined;
  locale?: string | undefined;
  colorScheme?: 'system' | 'light' | 'dark' | undefined;
  status?: InboxFilter['status'];
  category?: string | undefined;
  topic?: string | undefined;
  /** Whether the popover is open. */
  open?: boolean | undefined;
  /** `off` hides the preferences. */
  preferences?: 'off' | undefined;
  className?: string | undefined;
  onOpen?: () => void;
  onClose?: () => void;
  /** `preventDefault()` of the event keeps the link of the notification closed. */
  onNotificationClick?: (event: BelfryInboxEvents['belfry-click']) => void;
  onNew?: (event: BelfryInboxEvents['belfry-new']) => void;
  onChange?: (event: BelfryInboxEvents['belfry-change']) => void;
  onError?: (event: BelfryInboxEvents['belfry-error']) => void;
}

const EVENTS = {
  onOpen: 'belfry-open',
  onClose: 'belfry-close',
  onNotificationClick: 'belfry-click',
  onNew: 'belfry-new',
  onChange: 'belfry-change',
  onError: 'belfry-error',
} as const;

/** The inbox as a component: `<belfry-inbox>` with the store of the provider. */
export function BelfryInbox(props: BelfryInboxProps): ReactElement {
  const { messages, theme, className, colorScheme, open, ...attributes } = props;
  const inbox = useInbox();
  const element = useRef<BelfryInboxElement>(null);
  const latest = useLatest(props);
  useEffect(() => {
    // In the browser alone, and not in the bundle of pages without the component.
    void import('../element/define.ts');
  }, []);
  useEffect(() => {
    const { current } = element;
    if (current === null) return;
    const removals = Object.entries(EVENTS).map(([prop, name]) => {
      const listener = (event: Event) =>
        (latest.current[prop as keyof typeof EVENTS] as ((event: Event) => void) | undefined)?.(event);
      current.addEventListener(name, listener);
      return () => current.removeEventListener(name, listener);
    });
    return () => {
      for (const remove of removals) remove();
    };
  }, [latest]);
  useEffect(() => {
    Object.assign(element.current ?? {}, { messages, theme, inbox });
  }, [inbox, messages, theme]);
  const plain = Object.entries(attributes).filter(([name]) => !(name in EVENTS));
  return createElement('belfry-inbox', {
    ...Object.fromEntries(plain),
    class: className,
    'color-scheme': colorScheme,
    open: open || undefined,
    ref: element,
  });
}

/** A state with listeners: the inbox, a list, or web push. On a server it is the state before it connects. */
function useStore<State>(store: {
  subscribe(listener: () => void): () => void;
  getSnapshot(): State;
}): State {
  return useSyncExternalStore(store.subscribe, store.getSnapshot, store.getSnapshot);
}

/** The value of the last render, for what is called later. */
function useLatest<Value>(value: Value): { readonly current: Value } {
  const latest = useRef(value);
  useEffect(() => {
    latest.current = value;
  });
  return latest;
}

function readToken(token: InboxOptions['token']): string | Promise<string> {
  return typeof token === 'string' ? token : token();
}
