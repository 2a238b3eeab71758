import type { UserPreferences, UserPreferencesInput } from '@belfry/sdk';
import {
  type ComputedRef,
  computed,
  defineComponent,
  h,
  type InjectionKey,
  inject,
  type MaybeRefOrGetter,
  onMounted,
  onScopeDispose,
  provide,
  type ShallowRef,
  shallowRef,
  toValue,
  type VNode,
  watch,
} from 'vue';
import type { BelfryInbox as BelfryInboxElement, BelfryInboxEvents } from '../element/define.ts';
import {
  createInbox,
  type Inbox,
  type InboxFilter,
  type InboxOptions,
  type InboxSnapshot,
  type ListSnapshot,
  type NotificationList,
} from '../store/index.ts';
import { createWebPush, type WebPush, type WebPushOptions, type WebPushSnapshot } from '../web-push/index.ts';

const KEY: InjectionKey<Inbox> = Symbol('inbox');

/**
 * Provides an inbox to the component and those below: one that is made with the options, or your own. It
 * connects while a composable or component uses it.
 */
export function provideInbox(options: InboxOptions | Inbox): Inbox {
  const inbox = 'getSnapshot' in options ? options : createInbox(options);
  provide(KEY, inbox);
  return inbox;
}

/** The inbox that a component above provides: its actions, and its lists. */
export function useInbox(): Inbox {
  const inbox = inject(KEY, undefined);
  if (inbox === undefined) throw new Error('useInbox needs provideInbox in a component above');
  return inbox;
}

/** The state of the inbox: the connection, the counts, the theme, and the last error. */
export function useInboxState(): Readonly<ShallowRef<InboxSnapshot>> {
  const inbox = useInbox();
  return useStore(() => inbox);
}

/** How many notifications are unread and unseen; undefined until they are known. */
export function useCounts(): ComputedRef<InboxSnapshot['counts']> {
  const state = useInboxState();
  return computed(() => state.value.counts);
}

export interface UseNotifications {
  /** The notifications that match the filter, newest first, and whether there are more. */
  list: Readonly<ShallowRef<ListSnapshot>>;
  loadMore: NotificationList['loadMore'];
  refresh: NotificationList['refresh'];
}

/** The notifications that match the filter, as they arrive and change. */
export function useNotifications(filter: MaybeRefOrGetter<InboxFilter> = {}): UseNotifications {
  const inbox = useInbox();
  useStore(() => inbox); // connects it
  const current = () => inbox.list(toValue(filter));
  return {
    list: useStore(current),
    loadMore: () => current().loadMore(),
    refresh: () => current().refresh(),
  };
}

export interface UsePreferences {
  /** Undefined until they are loaded. */
  preferences: ComputedRef<UserPreferences | undefined>;
  save: (change: UserPreferencesInput) => Promise<void>;
}

/** The preferences of the user, which are loaded when the component is mounted. */
export function usePreferences(): UsePreferences {
  const inbox = useInbox();
  const state = useStore(() => inbox);
  onMounted(() => inbox.loadPreferences().catch(() => {})); // the snapshot has the error
  return { preferences: computed(() => state.value.preferences), save: inbox.savePreferences };
}

export interface UseWebPush {
  state: Readonly<ShallowRef<WebPushSnapshot>>;
  enable: WebPush['enable'];
  disable: WebPush['disable'];
}

/** Whether this browser shows pushes of the user, and functions to change that. */
export function useWebPush(options: WebPushOptions): UseWebPush {
  const push = createWebPush(options);
  const { enable, disable } = push;
  return { state: useStore(() => push), enable, disable };
}

/** The properties of `<belfry-inbox>`. */
export interface BelfryInboxProps extends Partial<Pick<BelfryInboxElement, 'messages' | 'theme'>> {
  mode?: 'popover' | 'page' | 'embedded';
  locale?: string;
  colorScheme?: 'system' | 'light' | 'dark';
  status?: NonNullable<InboxFilter['status']>;
  category?: string;
  topic?: string;
  /** Whether the popover is open. */
  open?: boolean;
  /** `off` hides the preferences. */
  preferences?: 'off';
}

/** The listeners of the component: `@belfry-click` in a template is `onBelfryClick`. */
export interface BelfryInboxListeners {
  onBelfryClick?: (event: BelfryInboxEvents['belfry-click']) => void;
  onBelfryNew?: (event: BelfryInboxEvents['belfry-new']) => void;
  onBelfryChange?: (event: BelfryInboxEvents['belfry-change']) => void;
  onBelfryOpen?: (event: BelfryInboxEvents['belfry-open']) => void;
  onBelfryClose?: (event: BelfryInboxEvents['belfry-close']) => void;
  onBelfryError?: (event: BelfryInboxEvents['belfry-error']) => void;
}

const ATTRIBUTES = ['mode', 'locale', 'status', 'category', 'topic', 'preferences'] as const;
const PROPS = {
  ...(Object.fromEntries(ATTRIBUTES.map((name) => [name, null])) as Record<
    (typeof ATTRIBUTES)[number],
    null
  >),
  colorScheme: null,
  open: Boolean, // `<BelfryInbox open>` passes an empty string
  messages: null,
  theme: null,
};

/**
 * The inbox as a component: `<belfry-inbox>` with the inbox that a component above provides. The events of
 * the element are those of the component: `@belfry-click="…"`.
 */
export const BelfryInbox: (props: BelfryInboxProps & BelfryInboxListeners) => VNode = defineComponent(
  (props: BelfryInboxProps) => {
    const inbox = useInbox();
    const element = shallowRef<BelfryInboxElement>();
    onMounted(() => {
      // In the browser alone, and not in the bundle of pages without the component.
      void import('../element/define.ts');
      watch(
        () => ({ messages: props.messages, theme: props.theme, inbox }),
        (members) => Object.assign(element.value ?? {}, members),
        { immediate: true },
      );
    });
    return () =>
      h('belfry-inbox', {
        ...Object.fromEntries(ATTRIBUTES.map((name) => [name, props[name]])),
        'color-scheme': props.colorScheme,
        open: props.open || undefined,
        ref: element,
      });
  },
  { name: 'BelfryInbox', props: PROPS },
) as never;

/** The snapshot of a store as a ref. It follows the store while the component is mounted. */
function useStore<State>(
  current: () => { subscribe(listener: () => void): () => void; getSnapshot(): State },
): Readonly<ShallowRef<State>> {
  const state = shallowRef(current().getSnapshot()) as ShallowRef<State>;
  let unsubscribe = () => {};
  onMounted(() =>
    watch(
      current,
      (store) => {
        unsubscribe();
        unsubscribe = store.subscribe(() => {
          state.value = store.getSnapshot();
        });
        state.value = store.getSnapshot();
      },
      { immediate: true },
    ),
  );
  onScopeDispose(() => unsubscribe());
  return state;
}
