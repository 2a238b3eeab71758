import type { BelfryError } from '@belfry/sdk';
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
    const lost = connection === 'offline' || connection === 'unauthorized' ? connection : undefined;
    // It would appear, and could take the focus, when the user no longer thinks of it.
    if (lost !== undefined) confirmed = undefined;
    const failure = error === undefined || isListBroken() ? undefined : failureOf(error);
    const isClosable = lost === undefined && (confirmed ?? failure) !== undefined;
    const name =
      lost ??
      (confirmed !== undefined ? 'confirmArchiveAll' : (failure ?? (isLate ? 'connecting' : undefined)));
    if (`${name} ${isClosable}` === shown) return;
    shown = `${name} ${isClosable}`;
    element.hidden = name === undefined;
    element.replaceChildren();
    if (name === undefined) return;
    element.append(h('span', {}, messages[name]));
    if (name === 'confirmArchiveAll') element.append(button(messages.archiveAll, confirmed));
    if (isClosable) element.append(button(messages.dismiss));
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

/** The message for an action that failed. */
function failureOf(error: Error): 'unauthorized' | 'unreachable' | 'failed' {
  const { status } = error as Partial<BelfryError>;
  if (status === 401) return 'unauthorized';
  return status === undefined ? 'unreachable' : 'failed';
}
