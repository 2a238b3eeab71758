import { isRtl } from './dom.ts';

/** Moves the focus by a key through the tabs and the list. */
export function followKey(event: KeyboardEvent, shadow: ShadowRoot, scroller: HTMLElement): void {
  const all = (selector: string) => [...shadow.querySelectorAll<HTMLElement>(selector)];
  const focused = shadow.activeElement; // the event may be older
  if (focused?.matches('.tab')) moveFocus(event, all('.tab'), 'x');
  if (!focused?.matches('.primary') || !moveFocus(event, all('.primary'), 'y')) return;
  if (event.key === 'Home') focusFirst(shadow, scroller);
  // What is near has its real height only now.
  else requestAnimationFrame(() => shadow.activeElement?.scrollIntoView({ block: 'nearest' }));
}

/** Gives the focus to the first notification of a list, also if its page was released. */
function focusFirst(shadow: ShadowRoot, scroller: HTMLElement): void {
  const block = scroller.querySelector('.block');
  const focus = () => {
    scroller.scrollTop = 0;
    scroller.querySelector<HTMLElement>('.primary')?.focus({ preventScroll: true });
  };
  focus();
  if (!block?.matches('.released')) return;
  const before = shadow.activeElement;
  const observer = new MutationObserver(() => {
    observer.disconnect();
    if (shadow.activeElement === before) focus();
  });
  observer.observe(block, { childList: true });
}

/** Gives focus to the next of these elements by an arrow key, Home or End. Returns whether it did. */
export function moveFocus(event: KeyboardEvent, elements: readonly HTMLElement[], axis: 'x' | 'y'): boolean {
  const [first] = elements;
  if (first === undefined || event.altKey || event.ctrlKey || event.metaKey) return false;
  const root = first.getRootNode() as ShadowRoot;
  const at = elements.indexOf(root.activeElement as HTMLElement);
  const [forward, back] =
    axis === 'y' ? (['ArrowDown', 'ArrowUp'] as const) : (['ArrowRight', 'ArrowLeft'] as const);
  const last = elements.length - 1;
  const step = axis === 'x' && isRtl(first) ? -1 : 1;
  const clamp = (index: number) => Math.min(last, Math.max(0, index));
  const targets: Record<string, number> = {
    [forward]: clamp(at + step),
    [back]: clamp(at < 0 ? last : at - step),
    Home: 0,
    End: last,
  };
  const target = targets[event.key];
  if (target === undefined) return false;
  event.preventDefault();
  elements[target]?.focus();
  return true;
}
