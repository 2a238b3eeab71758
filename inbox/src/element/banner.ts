import type { DetailsContext } from './context.ts';
import { h } from './dom.ts';

// How long a lost connection stays without a message: most come back at once.
const CONNECTING_AFTER_MS = 5_000;

export interface Banner {
  element: HTMLElement;
  render(): void;
  /** Lets the user confirm an action. */
  confirmArchiveAll(action: () => void): void;
  destroy(): void;
}

export interface BannerOptions {
  /** Whether the list shows an error itself. */
  isListBroken: () => boolean;
  /** Called when the user closes the banner. */
  onDismiss: () => void;
}

/** Shows problems of the connection and of the last action. */
export function createBanner(
  { inbox, messages }: DetailsContext,
  { isListBroken, onDismiss }: BannerOptions,
): Banner {
  const element = h('div', { class: 'banner', part: 'banner', role: 'status', hidden: true });
  let shown: string | undefined;
  let confirmed: (() => void) | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isLate = false;

  const stopTimer = () => {
    clearTimeout(timer);
    timer = undefined;
    isLate = false;
  };

  const button = (label: string, action?: () => void) => {
    const onclick = () => {
      confirmed = undefined;
      action?.();
      inbox.dismissError();
      render();
      onDismiss();
    };
    return h('button', { onclick }, label);
  };

  function render(): void {
    const { connection, error } = inbox.getSnapshot();
    if (connection !== 'connecting') stopTimer();
    else
      timer ??= setTimeout(() => {
        isLate = true;
        render();
      }, CONNECTING_AFTER_MS);
    // It would appear, and could take the focus, when the user no longer thinks of it.
    if (connection === 'offline' || connection === 'unauthorized') confirmed = undefined;
    const name =
      connection === 'offline' || connection === 'unauthorized'
        ? connection
        : confirmed !== undefined
          ? 'confirmArchiveAll'
          : error !== undefined && !isListBroken()
            ? 'failed'
            : isLate
              ? 'connecting'
              : undefined;
    if (name === shown) return;
    shown = name;
    element.hidden = name === undefined;
    element.replaceChildren();
    if (name === undefined) return;
    element.append(h('span', {}, messages[name]));
    if (name === 'confirmArchiveAll') element.append(button(messages.archiveAll, confirmed));
    if (name === 'confirmArchiveAll' || name === 'failed') element.append(button(messages.dismiss));
  }

  return {
    element,
    render,
    confirmArchiveAll(action) {
      confirmed = action;
      shown = undefined; // another action may have been waiting
      render();
      element.querySelector('button')?.focus();
    },
    destroy: stopTimer,
  };
}
