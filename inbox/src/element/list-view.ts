import type { ListSnapshot, NotificationList, Page } from '../store/list.ts';
import { arrival } from '../store/notification.ts';
import type { Notification } from '../store/types.ts';
import type { Context } from './context.ts';
import { h, run } from './dom.ts';
import { createItem } from './item.ts';
import { startOfDay } from './time.ts';

// Pages nearer than this are shown, so that they are there when the user scrolls to them.
export const NEAR_PX = 1_500;
// Pages that are observed on each side of the near ones, so that scrolling reaches them. Observing thousands
// costs each frame 5 ms.
const BESIDE = 3;
// Pages in a group. The browser keeps the layout of a group while it changes others: with 5,000 pages side by
// side, a layout takes 8 ms.
const GROUP_PAGES = 64;
// The assumed height of a notification in a page that was released before it was shown.
const ITEM_PX = 84;
// Rendering of a page stops after this time and continues in the next frame.
const FRAME_BUDGET_MS = 4;
// The first of a page are rendered at once, however long it takes.
const FIRST_ITEMS = 4;

/** A page of a list as it is shown: its notifications, or an empty box of the same height. */
class Block {
  readonly element = h('div', { class: 'block' });
  isNear: boolean;
  page: Page | undefined;
  /** The day of its last notification, or of the one above if it is empty. Kept while it is released. */
  lastDay: number | undefined;
  #dayAbove: number | undefined;
  #shown: readonly Notification[] = [];
  #frame = 0;
  #height = 0;
  readonly #context: Context;

  constructor(context: Context, isNear: boolean) {
    this.#context = context;
    this.isNear = isNear;
  }

  measure(height: number): void {
    if (this.#shown.length > 0 && this.#frame === 0) this.#height = height;
  }

  /** Shows the page. The day above it needs no second heading. */
  update(page: Page, dayAbove: number | undefined, isFirst: boolean): void {
    if (page === this.page && dayAbove === this.#dayAbove) return;
    const wasEmpty = this.#shown.length === 0;
    this.page = page;
    this.#dayAbove = dayAbove;
    const last = page.notifications?.at(-1);
    if (last !== undefined) this.lastDay = dayOf(last);
    else if (page.size === 0) this.lastDay = dayAbove;
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const isReleased = page.notifications === undefined;
    this.element.classList.toggle('released', isReleased);
    // Keeps the height until all is rendered: a page that looks short would make the next ones load.
    if (isReleased || wasEmpty) this.#reserve(this.#height || page.size * ITEM_PX);
    if (page.notifications === undefined) {
      this.#shown = [];
      this.element.replaceChildren();
      return;
    }
    this.#render(
      page.notifications,
      wasEmpty ? FIRST_ITEMS : page.notifications.length,
      isFirst && !wasEmpty,
    );
  }

  /** Renders up to `count` notifications, and the others in the next frames. */
  #render(notifications: readonly Notification[], count: number, marksNew: boolean): void {
    const shown = new Map(this.#shown.map((one) => [one.id, one]));
    const elements = new Map(
      [...this.element.querySelectorAll<HTMLElement>('.item')].map((one) => [one.dataset.id ?? '', one]),
    );
    const children: Node[] = [];
    const startedAt = performance.now();
    let previous = this.#dayAbove;
    let done = 0;
    for (const one of notifications) {
      const known = shown.get(one.id);
      const element = elements.get(one.id);
      if (element === undefined && done >= count && performance.now() - startedAt > FRAME_BUDGET_MS) break;
      const day = dayOf(one);
      if (previous !== day)
        children.push(h('h3', { class: 'day', part: 'day' }, this.#context.times.day(new Date(day))));
      if (known === one && element !== undefined) children.push(element);
      else {
        const fresh = createItem(this.#context, one);
        if (element?.classList.contains('expanded')) fresh.classList.add('expanded');
        // An animation continues if the notification is marked as seen meanwhile.
        if (element?.getAnimations().length || (marksNew && !known && one.status === 'unseen'))
          fresh.classList.add('arrived');
        children.push(fresh);
      }
      previous = day;
      done += 1;
    }
    this.#shown = notifications.slice(0, done);
    this.#replace(children);
    if (done < notifications.length)
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.#render(notifications, 0, marksNew);
      });
    else this.#reserve(0);
  }

  /** Replaces the children without moving those that stay, so that they keep the focus. */
  #replace(children: readonly Node[]): void {
    const kept = new Set(children);
    for (const child of [...this.element.childNodes]) if (!kept.has(child)) child.remove();
    children.forEach((child, index) => {
      const present = this.element.childNodes[index] ?? null;
      if (present !== child) this.element.insertBefore(child, present);
    });
  }

  /** Keeps this height; 0 if the content decides. */
  #reserve(height: number): void {
    this.element.style.blockSize = height === 0 ? '' : `${height}px`;
  }

  destroy(): void {
    cancelAnimationFrame(this.#frame);
    this.element.remove();
  }
}

/** Whether a block is near what the user sees. */
export type Seen = Pick<IntersectionObserverEntry, 'target' | 'isIntersecting' | 'boundingClientRect'>;

/** Shows a list of any length: pages far from what is visible are released. */
export class ListView {
  readonly element: HTMLElement;
  readonly #context: Context;
  readonly #list: NotificationList;
  readonly #blocks = new Map<number, Block>();
  /** All blocks, from the top of the list. */
  #order: readonly Block[] = [];
  #observed = new Set<Block>();
  #wasHidden = false;
  readonly #scroller: HTMLElement;
  readonly #items = h('div', { class: 'list', part: 'list' }, h('div'));
  readonly #end = h('div', { class: 'end' });
  readonly #observer: IntersectionObserver;

  constructor(context: Context, list: NotificationList, scroller: HTMLElement) {
    this.#context = context;
    this.#list = list;
    this.#scroller = scroller;
    this.element = h('div', {}, this.#items, this.#end);
    this.#observer = new IntersectionObserver((entries) => this.observe(entries), {
      root: scroller,
      rootMargin: `${NEAR_PX}px 0px`,
    });
    this.#observer.observe(this.#end);
  }

  destroy(): void {
    this.#observer.disconnect();
    for (const block of this.#blocks.values()) block.destroy();
    this.element.remove();
  }

  render({ pages, hasMore, isLoadingMore, error }: ListSnapshot): void {
    const focus = focusIn(this.#items);
    let above: Block | undefined;
    this.#order = pages.map((page) => {
      const block = this.#blocks.get(page.key) ?? this.#create(page, above);
      block.update(page, above?.lastDay, !above);
      // Another view of the same list may have released it.
      if (!page.notifications && block.isNear) run(this.#load(block));
      above = block;
      return block;
    });
    if (this.#blocks.size > pages.length)
      for (const [key, block] of this.#blocks)
        if (!this.#order.includes(block)) {
          block.destroy();
          this.#blocks.delete(key);
        }
    this.#observeNear();
    this.#end.hidden = !hasMore;
    if (focus) restoreFocus(this.#items, focus);
    // Observing it afresh reports whether the end is still near.
    if (hasMore && !isLoadingMore && !error) {
      this.#observer.unobserve(this.#end);
      this.#observer.observe(this.#end);
    }
  }

  /** A block for a page, below another one or on top. */
  #create({ key, notifications }: Page, above: Block | undefined): Block {
    const block = new Block(this.#context, !above || !!notifications);
    this.#blocks.set(key, block);
    const { element } = block;
    const group = (above?.element.parentElement ?? this.#items.firstElementChild) as Element;
    if (!above) group.prepend(element);
    else if (above.element.nextSibling || group.childElementCount < GROUP_PAGES) above.element.after(element);
    else (group.nextElementSibling ?? this.#items.appendChild(h('div'))).prepend(element);
    return block;
  }

  async #load(block: Block): Promise<void> {
    await this.#list.load(block.page as Page);
    // It may have been left behind meanwhile.
    if (!block.isNear) this.#list.release(block.page as Page);
  }

  #observeNear(): void {
    const order = this.#order;
    const near = [...order.keys()].filter((index) => order[index]?.isNear);
    // None after a jump, such as with the scroll bar. Reading the place makes the browser lay out the page.
    if (near.length === 0) {
      const { scrollTop } = this.#scroller;
      near.push(order.findLastIndex(({ element }) => element.offsetTop <= scrollTop));
    }
    const wanted = new Set(
      near.flatMap((index) => order.slice(Math.max(0, index - BESIDE), index + BESIDE + 1)),
    );
    for (const one of this.#observed) if (!wanted.has(one)) this.#observer.unobserve(one.element);
    for (const { element } of wanted) this.#observer.observe(element);
    this.#observed = wanted;
  }

  /** Loads and releases pages as the user scrolls. */
  observe(entries: readonly Seen[]): void {
    // Nothing is near while the app hides the list. It is shown again at the same place.
    if (this.#scroller.clientHeight === 0) {
      this.#wasHidden = true;
      return;
    }
    this.apply(entries);
    // What was created while the list was hidden is reported once more.
    if (this.#wasHidden) for (const { element } of this.#observed) this.#observer.unobserve(element);
    this.#wasHidden = false;
    this.#observeNear();
  }

  /** Loads what is near, and releases what is not. */
  apply(entries: readonly Seen[]): void {
    for (const { target, isIntersecting, boundingClientRect } of entries) {
      if (target === this.#end) {
        if (isIntersecting && this.#list.getSnapshot().hasMore) run(this.#list.loadMore());
        continue;
      }
      const block = [...this.#observed].find(({ element }) => element === target);
      const page = block?.page;
      if (!block || !page) continue;
      block.isNear = isIntersecting;
      if (isIntersecting && page.notifications === undefined) run(this.#load(block));
      // What has the focus stays.
      if (!isIntersecting && page.notifications !== undefined && focusIn(block.element) === undefined) {
        block.measure(boundingClientRect.height);
        this.#list.release(page);
      }
    }
  }
}

interface Focus {
  id: string;
  control: string;
  /** The place among the titles, for when the notification disappears. */
  index: number;
}

const activeIn = (element: Element) => (element.getRootNode() as ShadowRoot).activeElement;

function focusIn(container: Element): Focus | undefined {
  const active = activeIn(container);
  const item = active?.closest<HTMLElement>('.item');
  if (!active || !item || !container.contains(item)) return undefined;
  return {
    id: item.dataset.id ?? '',
    control: (active as HTMLElement).dataset.control ?? 'primary',
    index: [...container.querySelectorAll('.item')].indexOf(item),
  };
}

/** Gives the focus to the same control of the notification as it is now, or else to the one in its place. */
function restoreFocus(container: Element, { id, control, index }: Focus): void {
  if (activeIn(container) !== null) return;
  const items = [...container.querySelectorAll<HTMLElement>('.item')];
  const same = items.find((item) => item.dataset.id === id);
  const target = same ?? items[index] ?? items.at(-1);
  (
    same?.querySelector<HTMLElement>(`[data-control="${CSS.escape(control)}"]`) ??
    target?.querySelector<HTMLElement>('.primary') ??
    container.closest<HTMLElement>('.scroller')
  )?.focus({ preventScroll: same !== undefined });
}

const dayOf = (notification: Notification) => startOfDay(arrival(notification));
