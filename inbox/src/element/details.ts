// What is loaded beside the first list: the filters, the menu of a notification, the preferences and messages
// to the user, with their styles, icons and English texts.

import type { Messages } from '../locales/en.ts';
import { enDetails } from '../locales/en-details.ts';
import { type Banner, type BannerOptions, createBanner } from './banner.ts';
import type { Context } from './context.ts';
import { ICONS } from './dom.ts';
import type { HeaderDetails } from './header.ts';
import { createHeaderDetails, type HeaderDetailsOptions } from './header-details.ts';
import { followKey } from './keys.ts';
import { type ListView, NEAR_PX } from './list-view.ts';
import { Menu } from './menu.ts';
import { createPill, type Pill } from './pill.ts';
import { createPlaceholder, type Placeholder } from './placeholder.ts';
import { PreferencesView } from './preferences-view.ts';
import { DETAILS } from './styles/details.ts';

// So many pages with notifications are more than those near what the user sees. Reading their places makes
// the browser lay out the list.
const CROWDED = 5;

const sheet = new CSSStyleSheet();
sheet.replaceSync(DETAILS);
Object.assign(ICONS, {
  up: 'm6 11 6-6 6 6M12 5v14',
  clock: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M12 7v5l3 2',
  back: 'm14 6-6 6 6 6',
  text: 'M5 7h14M5 12h14M5 17h9',
  trash: 'M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13',
} satisfies Partial<typeof ICONS>);

export interface Details {
  /** The labels of the categories by their keys. */
  categories(): ReadonlyMap<string, string>;
  /** Moves the focus by a key. */
  followKey(event: KeyboardEvent): void;
  banner: Banner;
  header: HeaderDetails;
  menu: Menu;
  pill: Pill;
  placeholder: Placeholder;
  createPreferences(): PreferencesView;
  /** Releases what arrivals have pushed away in a hidden tab or part of it, where nothing is observed. */
  releaseHidden(view: ListView): void;
  /** Writes what changes with time, and the labels of the categories. */
  updateTexts(): void;
}

interface DetailsOptions extends BannerOptions, Omit<HeaderDetailsOptions, 'onClear'> {
  scroller: HTMLElement;
  onRetry: () => void;
  onSaved: (message: string) => void;
  /** Called when the list becomes visible. */
  onShown: () => void;
}

/** Creates the details of an inbox, and adds their styles to its shadow tree. */
export function createDetails(context: Context, shadow: ShadowRoot, options: DetailsOptions): Details {
  if (!shadow.adoptedStyleSheets.includes(sheet)) shadow.adoptedStyleSheets.push(sheet);
  const messages: Messages = { ...enDetails, ...context.messages };
  const categories = () =>
    new Map(
      context.inbox
        .getSnapshot()
        .preferences?.categories.map(({ key, label }) => [
          key,
          label ?? (key === 'uncategorized' ? messages.uncategorized : key),
        ]),
    );
  const whole = { ...context, messages, categories };
  const { scroller, onSelect } = options;
  /** What was pressed disappears, so the list gets the focus. */
  const selectTopic = (topic: string | undefined) => {
    onSelect({ topic });
    scroller.focus({ preventScroll: true });
  };
  closeWithoutFocus(shadow);
  closeForPlace(shadow);
  let isHidden = false;
  /** The pages that were there when the list was hidden: it is shown again at the same place. */
  let present = new Set<Element>();
  new ResizeObserver(() => {
    const wasHidden = isHidden;
    isHidden = scroller.clientHeight === 0;
    if (!wasHidden && isHidden) present = new Set(scroller.querySelectorAll('.block'));
    if (wasHidden && !isHidden) options.onShown();
  }).observe(scroller);
  return {
    categories,
    followKey: (event) => followKey(event, shadow, scroller),
    banner: createBanner(whole, options),
    header: createHeaderDetails(whole, { ...options, onClear: () => selectTopic(undefined) }),
    menu: new Menu(whole, selectTopic),
    pill: createPill(whole, scroller),
    placeholder: createPlaceholder(whole, options.onRetry),
    createPreferences: () => new PreferencesView(whole, () => options.onSaved(messages.saved)),
    releaseHidden(view) {
      if (!isHidden && !document.hidden) return;
      const blocks = [...scroller.querySelectorAll('.block:not(.released)')];
      if (blocks.length < CROWDED) return;
      // Nothing has a place, so the newest stay.
      if (isHidden) {
        const arrived = blocks.filter((one) => !present.has(one)).slice(CROWDED);
        const boundingClientRect = new DOMRect();
        view.apply(arrived.map((target) => ({ target, boundingClientRect, isIntersecting: false })));
        return;
      }
      const { top, bottom } = scroller.getBoundingClientRect();
      view.observe(
        blocks.map((target) => {
          const boundingClientRect = target.getBoundingClientRect();
          const { top: start, bottom: end } = boundingClientRect;
          const isIntersecting = end > top - NEAR_PX && start < bottom + NEAR_PX;
          return { target, boundingClientRect, isIntersecting };
        }),
      );
    },
    updateTexts() {
      const { times } = context;
      for (const time of scroller.querySelectorAll('time')) {
        const at = new Date(time.dateTime);
        time.textContent = times.ago(at);
        const heading = time.closest('.item')?.previousElementSibling;
        if (heading?.matches('.day')) heading.textContent = times.day(at);
      }
      const labels = categories();
      for (const one of scroller.querySelectorAll<HTMLElement>('[data-category]'))
        one.textContent = labels.get(one.dataset.category ?? '') ?? '';
    },
  };
}

/** Closes a popover that fills the window when the focus goes to what it covers. */
function closeWithoutFocus(shadow: ShadowRoot): void {
  const panel = shadow.querySelector<HTMLElement>('.panel[popover]');
  panel?.addEventListener('focusout', ({ relatedTarget }) => {
    const isLeft = relatedTarget instanceof Node && !panel.contains(relatedTarget);
    // The same width as in its styles.
    const isWhole = matchMedia('(width <= 480px)').matches;
    if (isLeft && isWhole && panel.matches(':popover-open')) panel.hidePopover();
  });
}

/** Closes a popover when a link leads to a place in the page, which it would cover. */
function closeForPlace(shadow: ShadowRoot): void {
  const panel = shadow.querySelector<HTMLElement>('.panel[popover]');
  panel?.addEventListener('click', (event) => {
    const { defaultPrevented, ctrlKey, metaKey, shiftKey } = event;
    const link = (event.target as Element).closest<HTMLAnchorElement>('a[href*="#"]');
    if (link === null || defaultPrevented || ctrlKey || metaKey || shiftKey) return;
    if (withoutHash(link.href) === withoutHash(location.href)) panel.hidePopover();
  });
}

const withoutHash = (url: string) => url.replace(/#.*/, '');
