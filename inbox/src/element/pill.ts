import { filled } from '../locales/messages.ts';
import type { DetailsContext } from './context.ts';
import { h, icon } from './dom.ts';
import { countText } from './header.ts';

export interface Pill {
  element: HTMLElement;
  /** A notification has arrived on top of the list. */
  add(): void;
  /** Another list is shown, from its top: the browser reports no scroll of a list that was replaced. */
  reset(): void;
}

/** Shows how many notifications have arrived above what the user sees, and scrolls to them. */
export function createPill({ messages }: DetailsContext, scroller: HTMLElement): Pill {
  const element = h('button', { class: 'pill', part: 'new', hidden: true, onclick: toTop });
  let newAbove = 0;
  // Kept, because reading it after a change of the list makes the browser lay out the page at once.
  let { scrollTop } = scroller;
  scroller.addEventListener('scroll', () => {
    scrollTop = scroller.scrollTop;
    if (newAbove > 0 && scrollTop < 50) show(0);
  });

  function show(count: number): void {
    newAbove = count;
    element.hidden = count === 0;
    if (count > 0)
      element.replaceChildren(icon('up'), filled(messages.newCount, { count: countText(count) }));
  }

  function reset(): void {
    scrollTop = 0;
    show(0);
  }

  function toTop(): void {
    scroller.scrollTop = 0;
    reset();
    scroller.querySelector<HTMLElement>('.primary')?.focus({ preventScroll: true });
  }

  return {
    element,
    add() {
      if (scrollTop > 200) show(newAbove + 1);
    },
    reset,
  };
}
