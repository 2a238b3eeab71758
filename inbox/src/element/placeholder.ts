import type { BelfryError } from '@belfry/sdk';
import type { ListSnapshot } from '../store/list.ts';
import type { DetailsContext } from './context.ts';
import { h, type IconName, icon } from './dom.ts';
import type { Tab } from './header.ts';

const ART: Record<Tab, IconName> = { all: 'bell', unread: 'checks', snoozed: 'clock', archived: 'archive' };
const TEXTS = {
  all: ['emptyAll', 'emptyAllHint'],
  unread: ['emptyUnread', 'emptyUnreadHint'],
  snoozed: ['emptySnoozed', 'emptySnoozedHint'],
  archived: ['emptyArchived', 'emptyArchivedHint'],
} as const;

export interface Placeholder {
  element: HTMLElement;
  /** `image` is that of the project for an empty inbox. */
  render(list: ListSnapshot, tab: Tab, image: string | undefined): void;
}

/** What stands in place of a list that failed or is empty, or below one that lacks a further page. */
export function createPlaceholder({ messages }: DetailsContext, retry: () => void): Placeholder {
  const element = h('div', { hidden: true });
  let shown = '';

  function render(
    { status, error, pages, hasMore }: ListSnapshot,
    tab: Tab,
    image: string | undefined,
  ): void {
    const isEmpty = status === 'ready' && !hasMore && pages.every(({ size }) => size === 0);
    const isLimited = (error as BelfryError | undefined)?.status === 429;
    const failed = isLimited ? messages.limited : messages.loadFailed;
    const kind = isEmpty
      ? `${tab} ${image}`
      : status === 'error'
        ? `${status} ${failed}`
        : error !== undefined && hasMore
          ? `more ${failed}`
          : '';
    if (kind === shown) return;
    shown = kind;
    const hadFocus = element.contains((element.getRootNode() as ShadowRoot).activeElement);
    element.hidden = kind === '';
    element.replaceChildren();
    if (status === 'error') empty(art('inbox'), failed, retryButton());
    else if (isEmpty) {
      const [text, hint] = TEXTS[tab];
      const hasImage = tab === 'all' && image !== undefined;
      empty(
        hasImage ? h('img', { src: image, alt: '' }) : art(ART[tab]),
        messages[text],
        h('p', {}, messages[hint]),
      );
    } else if (kind !== '') element.append(h('div', { class: 'failed' }, failed, retryButton()));
    if (hadFocus) element.parentElement?.focus({ preventScroll: true }); // the scroller, for the button
  }

  const retryButton = () => h('button', { class: 'button', onclick: retry }, messages.retry);
  const art = (name: IconName) => h('span', { class: 'art' }, icon(name));
  const empty = (picture: Node, text: string, last: Node) =>
    element.append(h('div', { class: 'empty', part: 'empty' }, picture, h('strong', {}, text), last));

  return { element, render };
}
