import type { Notification } from '../store/types.ts';
import type { DetailsContext } from './context.ts';
import { h, type IconName, icon, placeAt, run } from './dom.ts';
import { moveFocus } from './keys.ts';
import { snoozeChoices } from './snooze-choices.ts';

// A day less than the server allows.
const MAX_SNOOZE_MS = 399 * 86_400_000;

/** The menu of a notification, which also offers the times of a snooze. One serves all notifications. */
export class Menu {
  readonly element: HTMLElement;
  /** Called with a topic that the user selects. */
  readonly #onTopic: (topic: string) => void;
  readonly #context: DetailsContext;
  #notification: Notification | undefined;
  #anchor: HTMLElement | undefined;

  constructor(context: DetailsContext, onTopic: (topic: string) => void) {
    this.#context = context;
    this.#onTopic = onTopic;
    this.element = h('div', {
      class: 'menu',
      part: 'menu',
      popover: 'auto',
      tabindex: '-1',
      'aria-label': context.messages.more,
    });
    this.element.addEventListener('keydown', (event) => {
      const buttons = [...this.element.querySelectorAll<HTMLElement>('[role=menuitem]')];
      if (buttons.length > 0 && moveFocus(event, buttons, 'y')) return;
      if (event.key === 'Tab' && buttons.length > 0) this.close();
      if (event.key !== 'Escape') return;
      // The browser would close the panel as well if a field has the focus, and give the focus to no element.
      event.preventDefault();
      this.close();
    });
    this.element.addEventListener('toggle', (event) => {
      const isOpen = (event as ToggleEvent).newState === 'open';
      this.#anchor?.setAttribute('aria-expanded', String(isOpen));
    });
  }

  open(notification: Notification, anchor: HTMLElement): void {
    this.#notification = notification;
    this.#anchor = anchor;
    this.#show(this.#actions(notification));
  }

  close(): void {
    if (this.element.matches(':popover-open')) this.element.hidePopover();
    this.#anchor?.focus();
  }

  #show(children: readonly Node[], role = 'menu'): void {
    this.element.setAttribute('role', role);
    this.element.replaceChildren(...children);
    if (!this.element.matches(':popover-open')) this.element.showPopover();
    if (this.#anchor !== undefined) placeAt(this.element, this.#anchor);
    this.element.querySelector<HTMLElement>('[role=menuitem], input')?.focus();
  }

  #actions({ id, status, topic }: Notification): Node[] {
    const { inbox, messages } = this.#context;
    const isUnread = status === 'unseen' || status === 'unread';
    const isArchived = status === 'archived';
    const isSnoozed = status === 'snoozed';
    return [
      ...(isArchived || isSnoozed
        ? []
        : [
            this.#button(
              isUnread ? 'check' : 'dot',
              isUnread ? messages.markRead : messages.markUnread,
              () => (isUnread ? inbox.markRead(id) : inbox.markUnread(id)),
            ),
          ]),
      isSnoozed
        ? this.#button('inbox', messages.unsnooze, () => inbox.snooze(id, null))
        : this.#button('clock', messages.snooze, () => this.#next(this.#times())),
      this.#button(
        isArchived ? 'inbox' : 'archive',
        isArchived ? messages.unarchive : messages.archive,
        () => (isArchived ? inbox.unarchive(id) : inbox.archive(id)),
      ),
      ...(this.#clampedIn(id).length > 0
        ? [this.#button('text', messages.showAll, () => this.#expand(id))]
        : []),
      ...(topic === null ? [] : [this.#button('inbox', messages.onlyTopic, () => this.#select(topic))]),
      h('hr', { role: 'separator' }),
      this.#button('trash', messages.delete, () => inbox.remove(id), { class: 'danger' }),
    ];
  }

  #times(): Node[] {
    const { messages, times } = this.#context;
    return [
      ...snoozeChoices(times.now()).map(([name, at]) =>
        this.#button('clock', messages[name], () => this.#snooze(at), {}, times.soon(at)),
      ),
      this.#button('settings', messages.pickTime, () => this.#next([this.#form()], 'dialog')),
    ];
  }

  #form(): HTMLFormElement {
    const { messages, times } = this.#context;
    const now = times.now();
    const tomorrow = snoozeChoices(now).find(([name]) => name === 'tomorrow')?.[1] ?? new Date(now);
    const input = h('input', {
      type: 'datetime-local',
      class: 'field',
      required: true,
      'aria-label': messages.pickTime,
      min: localTime(new Date(now + 60_000)),
      max: localTime(new Date(now + MAX_SNOOZE_MS)),
      value: localTime(tomorrow),
    });
    return h(
      'form',
      {
        onsubmit: (event: Event) => {
          event.preventDefault();
          const until = new Date(input.value);
          if (until.getTime() > times.now()) this.#act(() => this.#snooze(until));
        },
      },
      input,
      h('button', { type: 'submit', class: 'button accent' }, messages.snooze),
    );
  }

  /** Shows the next step in place of this one. */
  #next(children: readonly Node[], role?: string): undefined {
    this.#show(children, role);
  }

  /** The texts of a notification that show only their first lines. */
  #clampedIn(id: string): Element[] {
    const item = this.#itemOf(id);
    return [...(item?.querySelectorAll('.primary, .content') ?? [])].filter(
      ({ scrollHeight, clientHeight }) => scrollHeight > clientHeight,
    );
  }

  #expand(id: string): undefined {
    this.#itemOf(id)?.classList.add('expanded');
  }

  /** The element of a notification as it is now: it is replaced when the notification changes. */
  #itemOf(id: string): Element | null {
    return (this.element.getRootNode() as ShadowRoot).querySelector(`[data-id="${CSS.escape(id)}"]`);
  }

  #select(topic: string): undefined {
    this.#onTopic(topic);
  }

  #snooze(until: Date): Promise<void> | undefined {
    return this.#notification && this.#context.inbox.snooze(this.#notification.id, until);
  }

  #button(
    name: IconName,
    label: string,
    action: () => Promise<unknown> | undefined,
    props: object = {},
    hint?: string,
  ): HTMLButtonElement {
    return h(
      'button',
      { role: 'menuitem', tabindex: '-1', onclick: () => this.#act(action), ...props },
      icon(name),
      h('span', {}, label),
      hint === undefined ? undefined : h('small', {}, hint),
    );
  }

  /** Closes the menu and runs the action, which may open it again with the next step. */
  #act(action: () => Promise<unknown> | undefined): void {
    this.close(); // first, so that the list has the focus when the action removes the notification
    const result = action();
    if (result !== undefined) run(result);
  }
}

/** The value of an input of a local date and time. */
function localTime(at: Date): string {
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
