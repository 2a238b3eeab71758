import { filled } from '../locales/messages.ts';
import type { Context } from './context.ts';
import { h, iconButton, moveFocus, setAttribute } from './dom.ts';

export const TABS = ['all', 'unread', 'snoozed', 'archived'] as const;
export type Tab = (typeof TABS)[number];

/** What the list shows. */
export interface Selection {
  tab: Tab;
  category: string | undefined;
  topic: string | undefined;
}

interface HeaderOptions {
  /** The filters that the page sets, which the user cannot change. */
  fixed: Partial<Selection>;
  onSelect: (change: Partial<Selection>) => void;
  onMarkAllRead: () => void;
  onArchiveAll: () => void;
  onBack: () => void;
  onClose: () => void;
}

/** The title with the filters and the actions on all notifications, and the tabs. */
export function createHeader(
  { inbox, messages, categories }: Context,
  { fixed, onSelect, onMarkAllRead, onArchiveAll, onBack, onClose }: HeaderOptions,
) {
  const title = h('h2');
  const select = h('select', {
    class: 'filter',
    part: 'filter',
    'aria-label': messages.category,
    onchange: () => onSelect({ category: select.value || undefined }),
  });
  const topicName = h('span');
  const clear = iconButton('close', messages.clear, () => onSelect({ topic: undefined }));
  const chip = h('span', { class: 'chip' }, topicName, clear);
  const back = iconButton('back', messages.back, onBack);
  const bulk = [
    iconButton('checks', messages.markAllRead, onMarkAllRead),
    iconButton('archive', messages.archiveAll, onArchiveAll),
  ];
  const close = iconButton('close', messages.close, onClose, { class: 'tool close' });
  const bar = h('div', { class: 'bar' }, back, title, chip, select, ...bulk, close);
  const count = h('span');
  let selected: Tab;
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
      messages[tab],
      tab === 'unread' && count,
    ),
  );
  const tablist = h(
    'div',
    {
      role: 'tablist',
      'aria-label': messages.title,
      onkeydown: (event: KeyboardEvent) => moveFocus(event, tabs, 'x'),
    },
    ...tabs,
  );
  const tabRow = h('div', { class: 'tabs' }, tablist);

  return {
    element: h('div', { class: 'header', part: 'header' }, bar, tabRow),
    back,

    render({ tab, category, topic }: Selection, isPreferences: boolean): void {
      selected = tab;
      const { unread } = inbox.getSnapshot().counts;
      const choices = categories();
      title.textContent = isPreferences ? messages.preferences : messages.title;
      back.hidden = !isPreferences;
      tabRow.hidden = isPreferences;
      chip.hidden = isPreferences || !topic || !!fixed.topic;
      topicName.textContent = filled(messages.topic, { topic: topic ?? '' });
      select.hidden = isPreferences || !!(topic || fixed.category) || choices.size < 2;
      for (const button of bulk) button.hidden = isPreferences || tab === 'snoozed' || tab === 'archived';
      const options = [['', messages.allCategories] as const, ...choices];
      if (select.options.length !== options.length)
        select.replaceChildren(...options.map(([value, label]) => h('option', { value }, label)));
      select.value = category ?? '';
      count.textContent = unread ? countText(unread) : '';
      count.hidden = !unread;
      for (const [index, button] of tabs.entries()) {
        const isSelected = TABS[index] === tab;
        setAttribute(button, 'aria-selected', String(isSelected));
        button.tabIndex = isSelected ? 0 : -1;
      }
    },

    /** Gives the focus to the first button. */
    focus: () => bar.querySelector<HTMLElement>('button:not([hidden])')?.focus(),
  };
}

/** A count for a badge. */
export function countText(count = 0): string {
  return count > 99 ? '99+' : String(count);
}
