import type { InboxIntegrationConfig } from '@belfry/sdk';
import { en, type Messages } from '../locales/en.ts';
import { filled, isRightToLeft, loadMessages } from '../locales/messages.ts';
import { createInbox, type Inbox, type InboxSnapshot } from '../store/inbox.ts';
import type { NotificationList } from '../store/list.ts';
import type { InboxFilter, Notification } from '../store/types.ts';
import { type Context, run } from './context.ts';
import { h, type IconName, icon, iconButton, moveFocus, setAttribute } from './dom.ts';
import { ListView } from './list-view.ts';
import type { Menu } from './menu.ts';
import { placeAt } from './popup.ts';
import type { PreferencesView } from './preferences-view.ts';
import { safeUrl } from './sanitize.ts';
import { STYLES } from './styles.ts';
import { setProperties, themeProperties } from './theme.ts';
import { Times } from './time.ts';

type Mode = 'popover' | 'page' | 'embedded';
type Tab = 'all' | 'unread' | 'snoozed' | 'archived';
type Theme = NonNullable<InboxIntegrationConfig['theme']>;

const TABS: Record<
  Tab,
  { status: InboxFilter['status']; empty: keyof Messages; hint: keyof Messages; art: IconName }
> = {
  all: { status: undefined, empty: 'emptyAll', hint: 'emptyAllHint', art: 'bell' },
  unread: { status: 'unread', empty: 'emptyUnread', hint: 'emptyUnreadHint', art: 'checks' },
  snoozed: { status: 'snoozed', empty: 'emptySnoozed', hint: 'emptySnoozedHint', art: 'clock' },
  archived: { status: 'archived', empty: 'emptyArchived', hint: 'emptyArchivedHint', art: 'archive' },
};
const TIMES_EVERY_MS = 60_000;
// How long a lost connection stays without a message: most come back at once.
const CONNECTING_AFTER_MS = 5_000;
const ATTRIBUTES = [
  'base-url',
  'token',
  'mode',
  'locale',
  'color-scheme',
  'category',
  'topic',
  'status',
  'open',
  'preferences',
];

// Loaded with the first list, so that they are there when the user opens them.
const loadMenu = () => import('./menu.ts');
const loadPreferencesView = () => import('./preferences-view.ts');

// A server has no elements, but may import this file.
const Base = globalThis.HTMLElement ?? (class {} as typeof HTMLElement);

/**
 * `<belfry-inbox>`: a bell with a popover, or an inbox as a part of a page. See README.md for its attributes,
 * events, CSS parts and custom properties.
 */
export class BelfryInbox extends Base {
  static readonly observedAttributes = ATTRIBUTES;
  #store: Inbox | undefined;
  #ownsStore = false;
  #token: string | (() => string | Promise<string>) | undefined;
  #theme: Partial<Theme> | undefined;
  #ownMessages: Partial<Messages> | undefined;
  #loaded: { locale: string; messages: Messages } = { locale: 'en', messages: en };
  #themeSheet: CSSStyleSheet | undefined;
  #mounted: Mounted | undefined;

  /** The store to show, instead of one made from `baseUrl` and `token`. */
  get inbox(): Inbox | undefined {
    return this.#store;
  }
  set inbox(inbox: Inbox | undefined) {
    this.#store = inbox;
    this.#ownsStore = false;
    this.#mount();
  }

  get baseUrl(): string {
    return this.getAttribute('base-url') ?? '';
  }
  set baseUrl(value: string) {
    this.setAttribute('base-url', value);
  }

  /** A User JWT, or a function that returns it. */
  get token(): string | (() => string | Promise<string>) | undefined {
    return this.#token ?? this.getAttribute('token') ?? undefined;
  }
  set token(value: string | (() => string | Promise<string>) | undefined) {
    this.#token = value;
    this.#restart();
  }

  get mode(): Mode {
    const mode = this.getAttribute('mode');
    return mode === 'page' || mode === 'embedded' ? mode : 'popover';
  }
  set mode(value: Mode) {
    this.setAttribute('mode', value);
  }

  /** The language; by default that of the project, of the page, or of the browser. */
  get locale(): string {
    return (
      this.getAttribute('locale') ??
      (this.#store?.getSnapshot().appearance?.locale ||
        this.closest('[lang]')?.getAttribute('lang') ||
        navigator.language)
    );
  }
  set locale(value: string) {
    this.setAttribute('locale', value);
  }

  get colorScheme(): 'system' | 'light' | 'dark' {
    const scheme = this.getAttribute('color-scheme');
    return scheme === 'light' || scheme === 'dark' ? scheme : 'system';
  }
  set colorScheme(value: 'system' | 'light' | 'dark') {
    this.setAttribute('color-scheme', value);
  }

  /** Texts that replace those of the language. */
  get messages(): Partial<Messages> | undefined {
    return this.#ownMessages;
  }
  set messages(value: Partial<Messages> | undefined) {
    this.#ownMessages = value;
    this.#mount();
  }

  /** Replaces parts of the theme of the project. */
  get theme(): Partial<Theme> | undefined {
    return this.#theme;
  }
  set theme(value: Partial<Theme> | undefined) {
    this.#theme = value;
    this.#applyTheme();
  }

  /** Whether the popover is open. */
  get open(): boolean {
    return this.hasAttribute('open');
  }
  set open(value: boolean) {
    this.toggleAttribute('open', value);
  }

  connectedCallback(): void {
    // A property that was set before the element was defined hides its accessor.
    for (const name of [
      'inbox',
      'token',
      'messages',
      'theme',
      'baseUrl',
      'mode',
      'locale',
      'open',
    ] as const) {
      if (!Object.hasOwn(this, name)) continue;
      const value = this[name];
      delete (this as Partial<Record<typeof name, unknown>>)[name];
      Object.assign(this, { [name]: value });
    }
    this.#mount();
  }

  disconnectedCallback(): void {
    this.#unmount();
    if (!this.#ownsStore) return;
    this.#store?.close();
    this.#store = undefined;
  }

  attributeChangedCallback(name: string, before: string | null, now: string | null): void {
    if (before === now || !this.isConnected) return;
    if (name === 'base-url' || name === 'token') this.#restart();
    else if (name === 'open') this.#mounted?.setOpen(this.open);
    else if (name === 'color-scheme') this.#mounted?.setScheme(this.colorScheme);
    else this.#mount();
  }

  /** Another server or user: starts with a new store. */
  #restart(): void {
    if (this.#ownsStore) {
      this.#store?.close();
      this.#store = undefined;
    }
    this.#mount();
  }

  #unmount(): void {
    this.#mounted?.destroy();
    this.#mounted = undefined;
  }

  #mount(): void {
    if (!this.isConnected) return;
    const { baseUrl, token } = this;
    if (this.#store === undefined && baseUrl !== '' && token !== undefined) {
      this.#store = createInbox({ baseUrl, token: typeof token === 'string' ? token : () => token() });
      this.#ownsStore = true;
    }
    const store = this.#store;
    this.#unmount();
    if (store === undefined) return;
    const shadow = this.shadowRoot ?? this.attachShadow({ mode: 'open' });
    if (this.#themeSheet === undefined) {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(STYLES);
      this.#themeSheet = new CSSStyleSheet();
      shadow.adoptedStyleSheets = [sheet, this.#themeSheet];
    }
    const { locale } = this;
    if (locale !== this.#loaded.locale)
      void loadMessages(locale).then((messages) => {
        if (this.locale !== locale) return;
        this.#loaded = { locale, messages };
        this.#mount();
      });
    this.#mounted = new Mounted(
      this,
      shadow,
      store,
      { ...this.#loaded.messages, ...this.#ownMessages },
      {
        onAppearance: () => {
          this.#applyTheme();
          if (this.locale !== locale) this.#mount();
        },
      },
    );
    this.#applyTheme();
  }

  #applyTheme(): void {
    const theme = this.#store?.getSnapshot().appearance?.theme ?? {};
    if (this.#themeSheet !== undefined)
      setProperties(this.#themeSheet, [...themeProperties(theme), ...themeProperties(this.#theme ?? {})]);
  }
}

/** What an element shows while it is in a document. */
class Mounted {
  readonly #host: BelfryInbox;
  readonly #store: Inbox;
  readonly #messages: Messages;
  readonly #context: Context;
  readonly #over = new AbortController();
  #menu: Menu | undefined;
  readonly #onAppearance: () => void;
  readonly #root: HTMLElement;
  readonly #bell: HTMLButtonElement | undefined;
  readonly #badge = h('span', { class: 'badge', part: 'badge', 'aria-hidden': 'true', hidden: true });
  readonly #panel: HTMLElement;
  readonly #bar: HTMLElement;
  readonly #tabs: HTMLElement;
  readonly #banner = h('div', { class: 'banner', part: 'banner', role: 'status', hidden: true });
  readonly #scroller: HTMLElement;
  readonly #placeholder = h('div', { hidden: true });
  readonly #pill: HTMLButtonElement;
  readonly #area: HTMLElement;
  readonly #footer: HTMLElement;
  readonly #status = h('div', { class: 'sr', role: 'status' });
  #tab: Tab;
  #category: string | undefined;
  #topic: string | undefined;
  #list: NotificationList | undefined;
  #view: ListView | undefined;
  #leaveList: () => void = () => {};
  #preferences: PreferencesView | undefined;
  #before: InboxSnapshot | undefined;
  #newAbove = 0;
  #connectingSince = Date.now();
  #connectingTimer: ReturnType<typeof setTimeout> | undefined;
  #shownBanner = '';
  /** What the user has to confirm. */
  #confirm: (() => void) | undefined;
  #isMarkingSeen = false;

  constructor(
    host: BelfryInbox,
    shadow: ShadowRoot,
    store: Inbox,
    messages: Messages,
    { onAppearance }: { onAppearance: () => void },
  ) {
    this.#host = host;
    this.#store = store;
    this.#messages = messages;
    this.#onAppearance = onAppearance;
    const { mode, locale } = host;
    const status = host.getAttribute('status');
    this.#tab =
      (Object.keys(TABS) as Tab[]).find((tab) => TABS[tab].status === (status ?? undefined)) ?? 'all';
    this.#category = host.getAttribute('category') ?? undefined;
    this.#topic = host.getAttribute('topic') ?? undefined;
    this.#context = {
      inbox: store,
      messages,
      locale,
      times: new Times(locale),
      categoryLabel: (key) => this.#categories().find(([name]) => name === key)?.[1],
      onFollow: (notification, url, action) => this.#follow(notification, url, action),
      openMenu: (notification, anchor) => run(this.#openMenu(notification, anchor)),
    };
    this.#pill = h('button', {
      type: 'button',
      class: 'pill',
      part: 'new',
      hidden: true,
      onclick: () => this.#toTop(),
    });
    this.#bar = h('div', { class: 'bar' });
    this.#tabs = h('div', { class: 'tabs' });
    this.#scroller = h(
      'div',
      { class: 'scroller', role: 'tabpanel', id: 'list', tabindex: '-1', onscroll: () => this.#scrolled() },
      this.#placeholder,
    );
    this.#footer = h('div', {
      class: 'footer',
      part: 'footer',
      hidden: host.getAttribute('preferences') === 'off',
    });
    this.#area = h('div', { class: 'body-area' }, this.#pill, this.#scroller);
    const isPopover = mode === 'popover';
    this.#panel = h(
      isPopover ? 'div' : 'section',
      {
        class: 'panel',
        part: 'panel',
        id: 'panel',
        'aria-label': messages.title,
        tabindex: isPopover ? '-1' : undefined,
        ...(isPopover ? { popover: 'auto', role: 'dialog' } : {}),
      },
      h('div', { class: 'header', part: 'header' }, this.#bar, this.#tabs),
      this.#banner,
      this.#area,
      this.#footer,
    );
    this.#bell = isPopover
      ? h(
          'button',
          {
            type: 'button',
            class: 'bell',
            part: 'bell',
            'aria-haspopup': 'dialog',
            'aria-expanded': 'false',
          },
          icon('bell'),
          this.#badge,
        )
      : undefined;
    if (this.#bell !== undefined) this.#bell.popoverTargetElement = this.#panel;
    this.#root = h(
      'div',
      { class: 'root', lang: locale, dir: this.#direction(), 'data-mode': mode },
      this.#bell,
      this.#panel,
      this.#status,
    );
    this.setScheme(host.colorScheme);
    shadow.replaceChildren(this.#root);
    this.#listen();
    this.#update();
    if (isPopover) this.setOpen(host.open);
    else this.#show();
  }

  destroy(): void {
    this.#over.abort();
    clearTimeout(this.#connectingTimer);
    this.#hide();
    this.#root.remove();
  }

  setScheme(scheme: string): void {
    setAttribute(this.#root, 'data-scheme', scheme);
  }

  setOpen(open: boolean): void {
    if (this.#bell === undefined || open === this.#panel.matches(':popover-open')) return;
    if (open) this.#panel.showPopover();
    else this.#panel.hidePopover();
  }

  #direction(): 'ltr' | 'rtl' {
    return isRightToLeft(this.#host.locale) ? 'rtl' : 'ltr';
  }

  #listen(): void {
    const { signal } = this.#over;
    const unsubscribe = [
      this.#store.subscribe(() => this.#update()),
      this.#store.onNew((notification) => this.#arrived(notification)),
      this.#store.onError((error) => this.#emit('error', { error })),
    ];
    signal.addEventListener('abort', () => {
      for (const end of unsubscribe) end();
    });
    this.#panel.addEventListener('toggle', (event) => this.#toggled(event as ToggleEvent), { signal });
    this.#tabs.addEventListener(
      'keydown',
      (event) => {
        if ((event.target as Element).matches('.tab'))
          moveFocus(event, [...this.#tabs.querySelectorAll<HTMLElement>('.tab')], 'x');
      },
      { signal },
    );
    const place = () => {
      if (this.#bell !== undefined && this.#panel.matches(':popover-open'))
        placeAt(this.#panel, this.#bell, this.#direction() === 'rtl');
    };
    addEventListener('resize', place, { signal });
    addEventListener('scroll', place, { signal, passive: true });
    document.addEventListener('visibilitychange', () => this.#markSeen(), { signal });
    const timer = setInterval(() => this.#view?.updateTimes(), TIMES_EVERY_MS);
    signal.addEventListener('abort', () => clearInterval(timer));
  }

  #emit(name: string, detail: object = {}): boolean {
    const options = { detail, bubbles: true, composed: true, cancelable: name === 'click' };
    return this.#host.dispatchEvent(new CustomEvent(`belfry-${name}`, options));
  }

  #toggled({ newState }: ToggleEvent): void {
    const isOpen = newState === 'open';
    this.#bell?.setAttribute('aria-expanded', String(isOpen));
    this.#host.toggleAttribute('open', isOpen);
    this.#emit(isOpen ? 'open' : 'close');
    if (!isOpen) {
      this.#hide();
      const { activeElement } = document;
      if (activeElement === this.#host || activeElement === document.body) this.#bell?.focus();
      return;
    }
    this.#show();
    if (this.#bell !== undefined) placeAt(this.#panel, this.#bell, this.#direction() === 'rtl');
    this.#panel.focus({ preventScroll: true });
  }

  /** Shows the list of the selected tab and filters. */
  #show(): void {
    this.#hide();
    this.#isMarkingSeen = false;
    if (this.#store.getSnapshot().preferences === undefined) run(this.#store.loadPreferences());
    const list = this.#store.list({
      status: TABS[this.#tab].status,
      category: this.#category,
      topic: this.#topic,
    });
    this.#list = list;
    this.#view = new ListView(this.#context, list, this.#scroller);
    this.#scroller.append(this.#view.element);
    this.#scroller.scrollTop = 0;
    this.#area.replaceChildren(this.#pill, this.#scroller);
    this.#renderBar();
    this.#renderTabs();
    this.#renderFooter();
    void Promise.all([loadMenu(), loadPreferencesView()]).catch(() => {}); // loaded again when needed
    this.#leaveList = list.subscribe(() => this.#renderList());
    this.#renderList();
    this.#markSeen();
  }

  #hide(): void {
    this.#leaveList();
    this.#leaveList = () => {};
    this.#view?.destroy();
    this.#view?.element.remove();
    this.#view = undefined;
    this.#preferences = undefined;
    this.#setNewAbove(0);
  }

  async #openMenu(notification: Notification, anchor: HTMLElement): Promise<void> {
    const { Menu } = await loadMenu();
    if (this.#menu === undefined) {
      this.#menu = new Menu((topic) => this.#filter({ topic }));
      this.#panel.append(this.#menu.element);
    }
    this.#menu.open(this.#context, notification, anchor);
  }

  async #showPreferences(): Promise<void> {
    const { PreferencesView } = await loadPreferencesView();
    this.#hide();
    const { messages } = this.#context;
    const view = new PreferencesView(this.#context, () => this.#announce(messages.saved));
    this.#preferences = view;
    this.#area.replaceChildren(view.element);
    this.#tabs.hidden = true;
    this.#footer.hidden = true;
    const back = iconButton('back', messages.back, {
      onclick: () => {
        this.#show();
        this.#footer.querySelector('button')?.focus();
      },
    });
    this.#bar.replaceChildren(back, h('h2', {}, messages.preferences), this.#closeButton());
    view.render();
    back.focus();
  }

  #renderBar(): void {
    const { messages } = this.#context;
    const bulk = { category: this.#category, topic: this.#topic };
    this.#bar.replaceChildren(
      h('h2', {}, messages.title),
      ...this.#filters(),
      ...(this.#tab === 'all' || this.#tab === 'unread'
        ? [
            iconButton('checks', messages.markAllRead, { onclick: () => run(this.#store.markAllRead(bulk)) }),
            iconButton('archive', messages.archiveAll, {
              onclick: () => {
                this.#confirm = () => run(this.#store.archiveAll(bulk));
                this.#renderBanner();
              },
            }),
          ]
        : []),
      this.#closeButton(),
    );
  }

  #closeButton(): HTMLElement {
    return iconButton('close', this.#context.messages.close, {
      class: 'tool close',
      onclick: () => this.setOpen(false),
    });
  }

  #renderFooter(): void {
    const { messages } = this.#context;
    this.#footer.hidden = this.#host.getAttribute('preferences') === 'off';
    if (this.#footer.childElementCount > 0) return;
    this.#footer.append(
      h(
        'button',
        { type: 'button', onclick: () => run(this.#showPreferences()) },
        icon('settings'),
        messages.preferences,
      ),
    );
  }

  #renderTabs(): void {
    const { messages } = this.#context;
    const { unread } = this.#store.getSnapshot().counts;
    const root = this.#tabs.getRootNode() as ShadowRoot;
    const focused = this.#tabs.contains(root.activeElement)
      ? (root.activeElement as HTMLElement).dataset.tab
      : undefined;
    const tabs = (Object.keys(TABS) as Tab[]).map((tab) => {
      const isSelected = tab === this.#tab;
      const count = tab === 'unread' && unread ? h('span', { class: 'count' }, countText(unread)) : undefined;
      return h(
        'button',
        {
          type: 'button',
          class: 'tab',
          part: 'tab',
          role: 'tab',
          'data-tab': tab,
          'aria-selected': String(isSelected),
          'aria-controls': 'list',
          tabindex: isSelected ? '0' : '-1',
          onclick: () => this.#filter({ tab }),
          onfocus: () => tab !== this.#tab && this.#filter({ tab }),
        },
        messages[tab],
        count,
      );
    });
    this.#tabs.hidden = false;
    this.#tabs.replaceChildren(h('div', { role: 'tablist', 'aria-label': messages.title }, ...tabs));
    if (focused !== undefined)
      this.#tabs.querySelector<HTMLElement>(`[data-tab=${focused}]`)?.focus({ preventScroll: true });
  }

  /** The selected topic, or a choice of the categories if there are several. */
  #filters(): HTMLElement[] {
    const { messages } = this.#context;
    const topic = this.#topic;
    if (topic !== undefined) {
      const clear = iconButton('close', messages.clear, {
        onclick: () => this.#filter({ topic: undefined }),
      });
      return this.#host.hasAttribute('topic')
        ? []
        : [h('span', { class: 'chip' }, filled(messages.topic, { topic }), clear)];
    }
    const categories = this.#categories();
    if (categories.length < 2 || this.#host.hasAttribute('category')) return [];
    const select = h(
      'select',
      {
        class: 'filter',
        part: 'filter',
        'aria-label': messages.category,
        onchange: () => this.#filter({ category: select.value || undefined }),
      },
      ...[['', messages.allCategories], ...categories].map(([value, label]) =>
        h('option', { value, selected: value === (this.#category ?? '') }, label),
      ),
    );
    return [select];
  }

  #categories(): [key: string, label: string][] {
    const categories = this.#store.getSnapshot().preferences?.categories ?? [];
    return categories.map(({ key, label }) => [
      key,
      label ?? (key === 'uncategorized' ? this.#messages.uncategorized : key),
    ]);
  }

  #filter(change: { tab?: Tab; category?: string | undefined; topic?: string | undefined }): void {
    if (change.tab !== undefined) this.#tab = change.tab;
    if ('category' in change) this.#category = change.category;
    if ('topic' in change) this.#topic = change.topic;
    this.#show();
  }

  /** Follows the store, except for its lists. */
  #update(): void {
    const now = this.#store.getSnapshot();
    const before = this.#before;
    this.#before = now;
    if (now.connection !== 'connecting') this.#connectingSince = Number.POSITIVE_INFINITY;
    else if (before?.connection !== 'connecting') this.#connectingSince = Date.now();
    if (now.appearance !== before?.appearance && before !== undefined) this.#onAppearance();
    if (this.#over.signal.aborted) return; // the language changed
    if (now.counts !== before?.counts) this.#showCounts(now.counts);
    this.#renderBanner();
    if (this.#preferences !== undefined) this.#preferences.render();
    else if (this.#view !== undefined) {
      if (now.preferences !== before?.preferences) this.#renderBar();
      if (now.counts.unread !== before?.counts.unread) this.#renderTabs();
      this.#renderPlaceholder();
      this.#markSeen();
    }
  }

  #showCounts({ unread, unseen }: InboxSnapshot['counts']): void {
    const { title, bell } = this.#messages;
    const count = countText(unseen ?? 0);
    this.#badge.hidden = !unseen;
    this.#badge.textContent = count;
    const label = unseen ? filled(bell, { count }) : title;
    if (this.#bell !== undefined) {
      this.#bell.setAttribute('aria-label', label);
      this.#bell.title = label;
    }
    if (unread !== undefined && unseen !== undefined) this.#emit('change', { unread, unseen });
  }

  /** Problems that the user should know: of the connection, or of the last action. */
  #renderBanner(): void {
    const { connection, error } = this.#store.getSnapshot();
    const { messages } = this.#context;
    clearTimeout(this.#connectingTimer);
    const waitMs = this.#connectingSince + CONNECTING_AFTER_MS - Date.now();
    if (connection === 'connecting' && waitMs > 0)
      this.#connectingTimer = setTimeout(() => this.#renderBanner(), waitMs);
    const isConnecting = connection === 'connecting' && waitMs <= 0;
    const name =
      connection === 'offline' || connection === 'unauthorized'
        ? connection
        : this.#confirm !== undefined
          ? 'archiveAll'
          : error !== undefined && this.#list?.getSnapshot().error === undefined
            ? 'failed'
            : isConnecting
              ? 'connecting'
              : '';
    if (this.#shownBanner === name) return;
    this.#shownBanner = name;
    this.#banner.hidden = name === '';
    const button = (label: string, action: () => void) =>
      h('button', { type: 'button', class: 'link', onclick: action }, label);
    const end = (action?: () => void) => {
      this.#confirm = undefined;
      action?.();
      this.#store.dismissError();
      this.#renderBanner();
      this.#bar.querySelector('button')?.focus();
    };
    const confirm = this.#confirm;
    this.#banner.replaceChildren(
      ...(name === ''
        ? []
        : [h('span', {}, name === 'archiveAll' ? messages.confirmArchiveAll : messages[name])]),
      ...(name === 'archiveAll' ? [button(messages.archiveAll, () => end(confirm))] : []),
      ...(name === 'failed' || name === 'archiveAll' ? [button(messages.dismiss, () => end())] : []),
    );
    if (name === 'archiveAll') this.#banner.querySelector('button')?.focus();
  }

  #renderList(): void {
    const snapshot = this.#list?.getSnapshot();
    if (snapshot === undefined || this.#view === undefined) return;
    this.#view.render(snapshot);
    this.#renderPlaceholder();
    this.#renderBanner();
  }

  /** What stands in an empty list: a skeleton, an error, or that nothing is there. */
  #renderPlaceholder(): void {
    const snapshot = this.#list?.getSnapshot();
    if (snapshot === undefined) return;
    const { messages } = this.#context;
    const { status, pages, hasMore } = snapshot;
    const isEmpty = status === 'ready' && !hasMore && pages.every(({ size }) => size === 0);
    const kind = status === 'ready' ? (isEmpty ? `empty ${this.#tab}` : '') : status;
    const image = safeUrl(this.#store.getSnapshot().appearance?.images?.emptyInboxUrl);
    const key = `${kind} ${image}`;
    this.#placeholder.hidden = kind === '';
    this.#scroller.setAttribute('aria-busy', String(status === 'loading'));
    if (this.#placeholder.dataset.key === key) return;
    this.#placeholder.dataset.key = key;
    if (kind === '') this.#placeholder.replaceChildren();
    else if (status === 'loading')
      this.#placeholder.replaceChildren(
        h('span', { class: 'sr' }, messages.loading),
        ...Array.from({ length: 6 }, () => h('div', { class: 'skeleton' }, h('span'))),
      );
    else if (status === 'error') {
      const retry = () => run(this.#list?.loadMore() ?? Promise.resolve());
      this.#placeholder.replaceChildren(
        this.#empty(
          h('span', { class: 'art' }, icon('inbox')),
          h('strong', {}, messages.loadFailed),
          h('button', { type: 'button', class: 'button', onclick: retry }, messages.retry),
        ),
      );
    } else {
      const { empty, hint, art } = TABS[this.#tab];
      const picture =
        image !== undefined && this.#tab === 'all'
          ? h('img', { src: image, alt: '' })
          : h('span', { class: 'art' }, icon(art));
      this.#placeholder.replaceChildren(
        this.#empty(picture, h('strong', {}, messages[empty]), h('p', {}, messages[hint])),
      );
    }
  }

  #empty(...children: Node[]): HTMLElement {
    return h('div', { class: 'empty', part: 'empty' }, ...children);
  }

  /** What the list shows is seen while it is open in a visible tab. */
  #markSeen(): void {
    const { connection, counts } = this.#store.getSnapshot();
    if (this.#isMarkingSeen || this.#view === undefined || document.visibilityState === 'hidden') return;
    if (connection !== 'live' && connection !== 'polling') return;
    const isFiltered = this.#category !== undefined || this.#topic !== undefined;
    const shown = this.#list?.getSnapshot().notifications ?? [];
    if (isFiltered ? !shown.some(({ status }) => status === 'unseen') : !counts.unseen) return;
    this.#isMarkingSeen = true;
    // If that fails, it is tried once more with the next arrival or when the list opens.
    const done = () => {
      this.#isMarkingSeen = false;
    };
    this.#store.markAllSeen({ category: this.#category, topic: this.#topic }).then(done, () => {});
  }

  #arrived(notification: Notification): void {
    this.#emit('new', { notification });
    this.#isMarkingSeen = false;
    this.#announce(filled(this.#messages.arrived, { title: notification.title }));
    if (this.#view !== undefined && this.#scroller.scrollTop > 200) this.#setNewAbove(this.#newAbove + 1);
  }

  #announce(text: string): void {
    this.#status.textContent = text;
  }

  #setNewAbove(count: number): void {
    this.#newAbove = count;
    this.#pill.hidden = count === 0;
    if (count > 0)
      this.#pill.replaceChildren(icon('up'), filled(this.#messages.newCount, { count: countText(count) }));
  }

  #scrolled(): void {
    if (this.#newAbove > 0 && this.#scroller.scrollTop < 50) this.#setNewAbove(0);
  }

  #toTop(): void {
    this.#scroller.scrollTop = 0;
    this.#setNewAbove(0);
    this.#scroller.querySelector<HTMLElement>('.primary')?.focus({ preventScroll: true });
  }

  #follow(notification: Notification, url: string, action?: string): boolean {
    const isAllowed = this.#emit('click', { notification, url, ...(action === undefined ? {} : { action }) });
    run(this.#store.recordClick(notification.id));
    // The page handles the link by itself, such as by its router.
    if (!isAllowed) this.setOpen(false);
    return isAllowed;
  }
}

/** A count for a badge. */
function countText(count: number): string {
  return count > 99 ? '99+' : String(count);
}
