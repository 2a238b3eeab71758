import type { Context } from './context.ts';
import { h, iconButton, setAttribute } from './dom.ts';

export const TABS = ['all', 'unread', 'snoozed', 'archived'] as const;
export type Tab = (typeof TABS)[number];

/** What the list shows. */
export interface Selection {
  tab: Tab;
  category: string | undefined;
  topic: string | undefined;
}

/** What the header gets later (header-details.ts). */
export interface HeaderDetails {
  /** The button that leaves the preferences. */
  back: HTMLElement;
  filters: readonly HTMLElement[];
  render(selection: Selection, isPreferences: boolean): void;
  /** Gives the focus to the first button of the header. */
  focus(): void;
}

interface HeaderOptions {
  onSelect: (change: Partial<Selection>) => void;
  onMarkAllRead: () => void;
  onArchiveAll: () => void;
  onClose: () => void;
}

/** The title with the actions on all notifications, and the tabs. */
export function createHeader(
  { inbox, messages }: Context,
  { onSelect, onMarkAllRead, onArchiveAll, onClose }: HeaderOptions,
) {
  const title = h('h2');
  const bulk = [
    iconButton('checks', messages.markAllRead, onMarkAllRead),
    iconButton('archive', messages.archiveAll, onArchiveAll),
  ];
  const close = iconButton('close', messages.close, onClose, { class: 'tool close' });
  const bar = h('div', { class: 'bar' }, title, ...bulk, close);
  const count = h('span');
  let selected: Tab;
  let details: HeaderDetails | undefined;
  const tabs = TABS.map((tab) =>
    h(
      'button',
      {
        class: 'tab',
        part: 'tab',
        role: 'tab',
        'aria-controls': 'list',
        onclick: () => onSelect({ tab }),
        onfocus: () => tab !== selected && onSelect({ tab }),
      },
      `${messages[tab]} `,
      tab === 'unread' && count,
    ),
  );
  const tablist = h(
    'div',
    {
      role: 'tablist',
      'aria-label': messages.title,
    },
    ...tabs,
  );
  const tabRow = h('div', { class: 'tabs' }, tablist);

  return {
    element: h('div', { class: 'header', part: 'header' }, bar, tabRow),
    addDetails(added: HeaderDetails): void {
      details = added;
      title.before(added.back);
      title.after(...added.filters);
    },

    render(selection: Selection, isPreferences: boolean): void {
      const { tab } = selection;
      selected = tab;
      const { unread } = inbox.getSnapshot().counts;
      title.textContent = isPreferences ? messages.preferences : messages.title;
      tabRow.hidden = isPreferences;
      details?.render(selection, isPreferences);
      for (const button of bulk) button.hidden = isPreferences || tab === 'snoozed' || tab === 'archived';
      count.textContent = unread ? countText(unread) : '';
      count.hidden = !unread;
      for (const [index, button] of tabs.entries()) {
        const isSelected = TABS[index] === tab;
        setAttribute(button, 'aria-selected', String(isSelected));
        button.tabIndex = isSelected ? 0 : -1;
      }
    },
  };
}

/** A count for a badge. */
export function countText(count = 0): string {
  return count > 99 ? '99+' : String(count);
}
