import { arrival, isUnread } from '../store/notification.ts';
import type { Notification } from '../store/types.ts';
import type { Context } from './context.ts';
import { h, iconButton, run } from './dom.ts';
import { linkAttributes, safeUrl, sanitized } from './sanitize.ts';

const MAX_ACTIONS = 4;

/** Creates the element of a notification. It is replaced when the notification changes. */
export function createItem(context: Context, notification: Notification): HTMLElement {
  const { id, status, content, category } = notification;
  const { messages, times, inbox } = context;
  const isNew = isUnread(notification);
  const isArchived = status === 'archived';
  const at = new Date(arrival(notification));
  const until = notification.snoozed_until;
  const headingId = `title-${id}`;
  /** Follows a link, also one in the content, or shows the whole text. */
  const onclick = (event: MouseEvent) => {
    const pressed = (event.target as Element).closest<HTMLAnchorElement>('a[href], .primary');
    const { button, ctrlKey, metaKey, shiftKey } = event;
    if (!pressed || button > 1) return;
    const opensTab = button === 1 || ctrlKey || metaKey || shiftKey;
    if (pressed.href) {
      if (!context.onFollow(notification, pressed.href, pressed.dataset.action, opensTab))
        event.preventDefault();
    } else if (button === 0) pressed.closest('.item')?.classList.toggle('expanded');
    else return;
    if (isNew) run(inbox.markRead(id));
  };
  return h(
    'article',
    {
      class: `item ${status}`,
      part: `notification ${status}`,
      'data-id': id,
      'aria-labelledby': headingId,
      onclick,
      onauxclick: onclick, // the middle button
    },
    h('span', { class: 'state', part: 'state' }),
    h(
      'div',
      { class: 'body' },
      h(
        'div',
        { class: 'top' },
        h(
          'div',
          { class: 'heading', part: 'title', id: headingId },
          isNew && h('span', { class: 'sr' }, `${messages.unread}: `),
          createPrimary(notification),
        ),
        h('time', { part: 'time', datetime: at.toISOString(), title: times.full(at) }, times.ago(at)),
      ),
      content && h('div', { class: 'content', part: 'content', dir: 'auto' }, sanitized(content)),
      (category || until) &&
        h(
          'div',
          { class: 'meta', part: 'meta' },
          until && h('span', {}, messages.until.replace('{time}', times.soon(new Date(until)))),
          category && h('span', { 'data-category': category }, context.categories()?.get(category)),
        ),
      createActions(notification),
    ),
    h(
      'div',
      { class: 'tools', part: 'tools' },
      !isArchived &&
        status !== 'snoozed' &&
        iconButton(
          isNew ? 'check' : 'dot',
          isNew ? messages.markRead : messages.markUnread,
          () => run(isNew ? inbox.markRead(id) : inbox.markUnread(id)),
          { 'data-control': 'read' },
        ),
      iconButton(
        isArchived ? 'inbox' : 'archive',
        isArchived ? messages.unarchive : messages.archive,
        () => run(isArchived ? inbox.unarchive(id) : inbox.archive(id)),
        { 'data-control': 'archive' },
      ),
      iconButton(
        'more',
        messages.more,
        (event) => context.openMenu(notification, event.currentTarget as HTMLElement),
        {
          class: 'tool menu-button',
          'data-control': 'menu',
          'aria-haspopup': 'menu',
          'aria-expanded': 'false',
        },
      ),
    ),
  );
}

/** The title: a link to the address of the notification, or a button that shows its whole text. */
function createPrimary({ title, action_url }: Notification): HTMLElement {
  const href = safeUrl(action_url);
  const props = { class: 'primary', 'data-control': 'primary', dir: 'auto' };
  return href === undefined
    ? h('button', props, title)
    : h('a', { ...props, ...linkAttributes(href) }, title);
}

interface Action {
  label: string;
  url: string;
  primary?: boolean;
}

/** The buttons of `custom_attributes.actions`. Those without a label or a safe address are left out. */
function createActions({ custom_attributes }: Notification): HTMLElement | undefined {
  const given: unknown = custom_attributes?.actions;
  if (!Array.isArray(given)) return undefined;
  const buttons = (given as (Partial<Action> | null)[]).slice(0, MAX_ACTIONS).flatMap((action) => {
    const href = safeUrl(action?.url);
    const label = action?.label;
    if (href === undefined || typeof label !== 'string' || label === '') return [];
    const style = action?.primary === true ? 'button accent' : 'button';
    const props = {
      class: style,
      part: 'action',
      'data-control': `action ${label}`,
      'data-action': label,
      ...linkAttributes(href),
    };
    return [h('a', props, label)];
  });
  return buttons.length === 0 ? undefined : h('div', { class: 'actions' }, ...buttons);
}
