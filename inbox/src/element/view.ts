import type { ListMessages } from '../locales/en.ts';
import { filled, isRightToLeft } from '../locales/messages.ts';
import type { Inbox, InboxSnapshot } from '../store/inbox.ts';
import type { NotificationList } from '../store/list.ts';
import type { Notification } from '../store/types.ts';
import type { Context } from './context.ts';
import type { Details } from './details.ts';
import { h, icon, placeAt, run, setAttribute } from './dom.ts';
import { countText, createHeader, type Selection, TABS } from './header.ts';
import { ListView } from './list-view.ts';
import type { PreferencesView } from './preferences-view.ts';
import { safeUrl } from './sanitize.ts';
import { Times } from './time.ts';

const TIMES_EVERY_MS = 60_000;

export interface ViewOptions {
  host: HTMLElement;
  shadow: ShadowRoot;
  inbox: Inbox;
  messages: ListMessages;
  mode: 'popover' | 'page' | 'embedded';
  locale: string;
  onAppearance: () => void;
}

export interface View {
  setOpen(open: boolean): void;
  setScheme(scheme: string): void;
  destroy(): void;
}

/** Shows an inbox in the shadow tree of an element: a bell with a popover, or the panel alone. */
export function createView({ host, shadow, inbox, messages, mode, locale, onAppearance }: ViewOptions): View {
  const isPopover = mode === 'popover';
  const attribute = (name: string) => host.getAttribute(name) ?? undefined;
  const over = new AbortController();
  const { signal } = over;
  const fixed = { category: attribute('category'), topic: attribute('topic') };
  const selection: Selection = { tab: TABS.find((tab) => tab === attribute('status')) ?? 'all', ...fixed };
  let list: NotificationList | undefined;
  let listView: ListView | undefined;
  let leaveList = () => {};
  let details: Details | undefined;
  let preferences: PreferencesView | undefined;
  let before: InboxSnapshot | undefined;
  let isMarkingSeen = false;
  let hasMarkingFailed = false;

  const context: Context = {
    inbox,
    messages,
    times: new Times(locale, inbox.now),
    categories: () => details?.categories(),
    onFollow(notification, url, action, opensTab) {
      const detail = { notification, url, ...(action === undefined ? {} : { action }) };
      const isAllowed = emit('click', detail, !opensTab);
      run(inbox.recordClick(notification.id));
      // The page handles the link by itself, such as by its router.
      if (!isAllowed) setOpen(false);
      return isAllowed;
    },
    openMenu: (notification, anchor) =>
      run(loadDetails().then(({ menu }) => menu.open(notification, anchor))),
  };

  const header = createHeader(context, {
    onSelect: select,
    onMarkAllRead: () => run(inbox.markAllRead(selection)),
    onArchiveAll() {
      const filter = { ...selection }; // which the user may change before the confirmation
      run(loadDetails().then(({ banner }) => banner.confirmArchiveAll(() => run(inbox.archiveAll(filter)))));
    },
    onClose: () => setOpen(false),
  });
  const skeleton = h('div', { class: 'skeleton' }, h('span', { class: 'sr' }, messages.loading));
  const scroller = h(
    'div',
    {
      class: 'scroller',
      role: 'tabpanel',
      id: 'list',
      tabindex: '-1',
    },
    skeleton,
  );
  const area = h('div', { class: 'area' });
  const preferencesButton = h(
    'button',
    { onclick: () => run(showPreferences()) },
    icon('settings'),
    messages.preferences,
  );
  const footer = h('div', { class: 'footer', part: 'footer' }, preferencesButton);
  const panel = h(
    isPopover ? 'div' : 'section',
    {
      class: 'panel',
      part: 'panel',
      id: 'panel',
      'aria-label': messages.title,
      // Keys that are pressed before the details are loaded wait for them.
      onkeydown: (event: KeyboardEvent) =>
        details ? details.followKey(event) : run(loadDetails().then((loaded) => loaded.followKey(event))),
      ...(isPopover && { popover: 'auto', role: 'dialog', tabindex: '-1', ontoggle: toggled }),
    },
    header.element,
    area,
    footer,
  );
  const badge = h('span', { class: 'badge', part: 'badge', 'aria-hidden': 'true', hidden: true });
  const bell = h(
    'button',
    { class: 'bell', part: 'bell', 'aria-haspopup': 'dialog', 'aria-expanded': 'false' },
    icon('bell'),
    badge,
  );
  bell.popoverTargetElement = panel;
  const status = h('div', { class: 'sr', role: 'status' });
  const dir = isRightToLeft(locale) ? 'rtl' : 'ltr';
  const root = h(
    'div',
    { class: 'root', lang: context.times.locale ?? 'en', dir, 'data-mode': mode },
    isPopover && bell,
    panel,
    status,
  );

  function emit(name: string, detail: object = {}, cancelable = false): boolean {
    const options = { detail, bubbles: true, composed: true, cancelable };
    return host.dispatchEvent(new CustomEvent(`belfry-${name}`, options));
  }

  const isOpen = () => isPopover && panel.matches(':popover-open');

  function setOpen(open: boolean): void {
    if (isPopover && open !== isOpen()) panel.togglePopover();
  }

  function toggled(): void {
    if (signal.aborted) return; // the event is later than the change
    bell.setAttribute('aria-expanded', String(isOpen()));
    host.toggleAttribute('open', isOpen());
    emit(isOpen() ? 'open' : 'close');
    if (isOpen()) {
      show();
      place();
      panel.focus({ preventScroll: true });
      return;
    }
    hide();
    if (shadow.activeElement || document.activeElement === document.body) bell.focus();
  }

  function place(): void {
    if (isOpen()) placeAt(panel, bell);
  }

  // Loaded with the first list, so that it is there when the user opens it.
  async function loadDetails(): Promise<Details> {
    const { createDetails } = await import('./details.ts');
    if (!details) {
      details = createDetails(context, shadow, {
        scroller,
        isListBroken: () => list?.getSnapshot().status === 'error',
        onDismiss() {
          details?.header.focus();
          if (!shadow.activeElement) scroller.focus();
        },
        onRetry: () => list && run(list.loadMore()),
        fixed,
        onSelect: select,
        onBack() {
          show();
          preferencesButton.focus();
        },
        onSaved: announce,
        onShown: markSeen,
      });
      header.addDetails(details.header);
      header.render(selection, false);
      header.element.after(details.banner.element);
      panel.append(details.menu.element);
      scroller.before(details.pill.element);
      scroller.append(details.placeholder.element);
      renderPlaceholder();
      details.banner.render();
      details.updateTexts();
    }
    return details;
  }

  async function showPreferences(): Promise<void> {
    const { createPreferences, header: added } = await loadDetails();
    hide();
    preferences = createPreferences();
    area.replaceChildren(preferences.element);
    footer.hidden = true;
    header.render(selection, true);
    preferences.render();
    added.focus();
  }

  function select(change: Partial<Selection>): void {
    Object.assign(selection, change);
    show();
  }

  /** Shows the list of the selected tab and filters. */
  function show(): void {
    hide();
    hasMarkingFailed = false;
    if (inbox.getSnapshot().preferences === undefined) run(inbox.loadPreferences());
    const { tab, ...filter } = selection;
    list = inbox.list({ ...filter, status: tab === 'all' ? undefined : tab });
    listView = new ListView(context, list, scroller);
    skeleton.after(listView.element);
    area.replaceChildren(scroller);
    if (details) scroller.before(details.pill.element);
    scroller.scrollTop = 0;
    footer.hidden = attribute('preferences') === 'off';
    header.render(selection, false);
    run(loadDetails()); // loaded again when needed
    leaveList = list.subscribe(renderList);
    renderList();
    markSeen();
  }

  function hide(): void {
    leaveList();
    leaveList = () => {};
    listView?.destroy();
    listView = undefined;
    preferences = undefined;
    details?.pill.reset();
  }

  function renderList(): void {
    if (!list) return;
    listView?.render(list.getSnapshot());
    if (listView) details?.releaseHidden(listView);
    renderPlaceholder();
    details?.banner.render();
  }

  function renderPlaceholder(): void {
    if (!list) return;
    const snapshot = list.getSnapshot();
    setAttribute(scroller, 'aria-busy', String(snapshot.status === 'loading'));
    const isShown = snapshot.pages.some(({ size }) => size > 0);
    skeleton.hidden = isShown || (!!details && snapshot.status !== 'loading');
    const image = safeUrl(inbox.getSnapshot().appearance?.images?.emptyInboxUrl);
    details?.placeholder.render(snapshot, selection.tab, image);
  }

  /** Follows the store, except for its lists. */
  function update(): void {
    const now = inbox.getSnapshot();
    const last = before;
    before = now;
    if (last && now.appearance !== last.appearance) onAppearance();
    if (signal.aborted) return; // the language changed
    if (now.counts !== last?.counts) showCounts(now.counts);
    details?.banner.render();
    preferences?.render();
    if (!listView) return;
    if (now.preferences !== last?.preferences) details?.updateTexts();
    if (now.preferences !== last?.preferences || now.counts !== last?.counts) header.render(selection, false);
    renderPlaceholder();
    markSeen();
  }

  function showCounts({ unread, unseen }: InboxSnapshot['counts']): void {
    const count = countText(unseen);
    badge.hidden = !unseen;
    badge.textContent = count;
    bell.title = unseen ? filled(messages.bell, { count }) : messages.title;
    bell.setAttribute('aria-label', bell.title);
    if (unread !== undefined && unseen !== undefined) emit('change', { unread, unseen });
  }

  /** What the list shows is seen while it is open in a visible tab. */
  function markSeen(): void {
    const { connection, counts } = inbox.getSnapshot();
    if (isMarkingSeen || hasMarkingFailed || !listView || document.visibilityState === 'hidden') return;
    if (connection !== 'live' && connection !== 'polling') return;
    const { category, topic } = selection;
    const hasUnseen =
      category || topic
        ? list?.getSnapshot().notifications.some((one) => one.status === 'unseen')
        : counts.unseen;
    if (!hasUnseen || scroller.clientHeight === 0) return; // a part of the page that is hidden
    isMarkingSeen = true;
    const done = (hasFailed: boolean) => {
      isMarkingSeen = false;
      hasMarkingFailed = hasFailed; // it is tried once more with the next arrival or when the list opens
      markSeen(); // what has arrived meanwhile
    };
    inbox.markAllSeen({ category, topic }).then(
      () => done(false),
      () => done(true),
    );
  }

  function arrived(notification: Notification): void {
    emit('new', { notification });
    hasMarkingFailed = false;
    markSeen();
    announce(filled(messages.arrived, { title: notification.title }));
    if (listView !== undefined) details?.pill.add();
  }

  function announce(text: string): void {
    status.textContent = text;
  }

  shadow.replaceChildren(root);
  const unsubscribe = [
    inbox.subscribe(update),
    inbox.onNew(arrived),
    inbox.onError((error) => emit('error', { error })),
  ];
  addEventListener('resize', place, { signal });
  addEventListener('scroll', place, { signal, passive: true });
  document.addEventListener('visibilitychange', markSeen, { signal });
  const timer = setInterval(() => details?.updateTexts(), TIMES_EVERY_MS);
  update();
  if (isPopover) setOpen(host.hasAttribute('open'));
  else show();

  return {
    setOpen,
    setScheme: (scheme) => setAttribute(root, 'data-scheme', scheme),
    destroy() {
      over.abort();
      for (const end of unsubscribe) end();
      clearInterval(timer);
      details?.banner.destroy();
      hide();
      root.remove();
    },
  };
}
