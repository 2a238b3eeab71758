import type { Notification } from '../store/types.ts';
import { type Context, run } from './context.ts';
import { h, iconButton } from './dom.ts';
import { linkAttributes, safeUrl, sanitized } from './sanitize.ts';

const MAX_ACTIONS = 4;

/** Creates the element of a notification. It is replaced when the notification changes. */
export function createItem(context: Context, notification: Notification): HTMLElement {
  const { id, status, content, category } = notification;
  const { messages, times, inbox } = context;
  const isUnread = status === 'unread' || status === 'unseen';
  const at = new Date(notification.sent_at ?? notification.created_at);
  const label = category === null ? undefined : context.categoryLabel(category);
  const until = notification.snoozed_until;
  const headingId = `title-${id}`;
  return h(
    'article',
    { class: `item ${status}`, part: `notification ${status}`, 'data-id': id, 'aria-labelledby': headingId },
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
          isUnread && h('span', { class: 'sr' }, `${messages.unread}: `),
          createPrimary(context, notification),
        ),
        h('time', { part: 'time', datetime: at.toISOString(), title: times.full(at) }, times.ago(at)),
      ),
      content !== null &&
        content !== '' &&
        h('div', { class: 'content', part: 'content', dir: 'auto' }, sanitized(content)),
      createActions(context, notification),
      (label !== undefined || Boolean(until)) &&
        h(
          'div',
          { class: 'meta', part: 'meta' },
          until ? h('span', {}, messages.until.replace('{time}', times.soon(new Date(until)))) : undefined,
          label !== undefined && h('span', {}, label),
        ),
    ),
    h(
      'div',
      { class: 'tools', part: 'tools' },
      status !== 'archived' &&
        status !== 'snoozed' &&
        iconButton(isUnread ? 'check' : 'dot', isUnread ? messages.markRead : messages.markUnread, {
          'data-control': 'read',
          onclick: () => run(isUnread ? inbox.markRead(id) : inbox.markUnread(id)),
        }),
      iconButton(
        status === 'archived' ? 'inbox' : 'archive',
        status === 'archived' ? messages.unarchive : messages.archive,
        {
          'data-control': 'archive',
          onclick: () => run(status === 'archived' ? inbox.unarchive(id) : inbox.archive(id)),
        },
      ),
      iconButton('more', messages.more, {
        class: 'tool menu-button',
        'data-control': 'menu',
        'aria-haspopup': 'menu',
        'aria-expanded': 'false',
        onclick: (event: Event) => context.openMenu(notification, event.currentTarget as HTMLElement),
      }),
    ),
  );
}

/** The title: a link to the address of the notification, or a button that shows its whole text. */
function createPrimary(context: Context, notification: Notification): HTMLElement {
  const { title } = notification;
  const href = safeUrl(notification.action_url);
  const read = () => {
    if (notification.status === 'unread' || notification.status === 'unseen')
      run(context.inbox.markRead(notification.id));
  };
  if (href !== undefined)
    return h(
      'a',
      {
        class: 'primary',
        'data-control': 'primary',
        dir: 'auto',
        ...linkAttributes(href),
        onclick: (event: Event) => {
          if (!context.onFollow(notification, href)) event.preventDefault();
          read();
        },
      },
      title,
    );
  return h(
    'button',
    {
      type: 'button',
      class: 'primary',
      'data-control': 'primary',
      dir: 'auto',
      onclick: (event: Event) => {
        (event.currentTarget as Element).closest('.item')?.classList.toggle('expanded');
        read();
      },
    },
    title,
  );
}

interface Action {
  label: string;
  url: string;
  primary?: boolean;
}

/** The buttons of `custom_attributes.actions`. Those without a label or a safe address are left out. */
function createActions(context: Context, notification: Notification): HTMLElement | undefined {
  const given: unknown = notification.custom_attributes?.actions;
  if (!Array.isArray(given)) return undefined;
  const buttons = (given as (Partial<Action> | null)[]).slice(0, MAX_ACTIONS).flatMap((action) => {
    const href = safeUrl(action?.url);
    const label = action?.label;
    if (href === undefined || typeof label !== 'string' || label === '') return [];
    const style = action?.primary === true ? 'button primary-button' : 'button';
    const props = {
      class: style,
      part: 'action',
      'data-control': `action ${label}`,
      ...linkAttributes(href),
      onclick: (event: Event) => {
        if (!context.onFollow(notification, href, label)) event.preventDefault();
        run(context.inbox.markRead(notification.id));
      },
    };
    return [h('a', props, label)];
  });
  return buttons.length === 0 ? undefined : h('div', { class: 'actions' }, ...buttons);
}
