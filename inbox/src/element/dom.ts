const MARGIN_PX = 8;

type Child = Node | string | false | null | undefined;
type Props = Record<string, unknown>;

/**
 * Creates an element. Functions are listeners of the event that their name ends in; others are attributes,
 * which `false` and `undefined` leave out. Children without a value are left out, too.
 */
export function h<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  if (name === 'button') element.setAttribute('type', 'button');
  for (const [key, value] of Object.entries(props)) {
    if (typeof value === 'function') element.addEventListener(key.slice(2), value as EventListener);
    else setAttribute(element, key, value);
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/** Sets an attribute, or removes it if the value is `false` or `undefined`. */
export function setAttribute(element: Element, name: string, value: unknown): void {
  if (value === undefined || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? '' : String(value));
}

/** The paths of the icons. `details.ts` adds those that it shows. */
export const ICONS = {
  bell: 'M6 9a6 6 0 1 1 12 0c0 5 2 6 2 7H4c0-1 2-2 2-7M10 20a2.2 2.2 0 0 0 4 0',
  checks: 'm2 13 4 4L15 7M11 16l1 1L22 7',
  check: 'm5 13 4 4L19 7',
  dot: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8',
  archive: 'M3 5h18v4H3zM5 9v10h14V9M10 13h4',
  inbox: 'M4 5h16v14H4zM4 14h5a3 3 0 0 0 6 0h5',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  settings:
    'M4 8h8.5M17.5 8H20M4 16h2.5M11.5 16H20M15 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5' +
    'M9 13.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5',
  close: 'm6 6 12 12M18 6 6 18',
} as Record<IconName, string>;
export type IconName =
  | 'bell'
  | 'checks'
  | 'check'
  | 'dot'
  | 'archive'
  | 'inbox'
  | 'more'
  | 'settings'
  | 'close'
  | 'back'
  | 'up'
  | 'clock'
  | 'trash'
  | 'text';

const SVG = 'http://www.w3.org/2000/svg';

export function icon(name: IconName): SVGSVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', ICONS[name]);
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  svg.setAttribute('class', `icon icon-${name}`);
  svg.append(path);
  return svg;
}

/** A button that shows only an icon. */
export function iconButton(
  name: IconName,
  label: string,
  onclick: (event: Event) => void,
  props: Props = {},
): HTMLButtonElement {
  return h('button', { class: 'tool', 'aria-label': label, title: label, onclick, ...props }, icon(name));
}

/** Places an element with `position: fixed` below another one, or above it if there is more room. */
export function placeAt(element: HTMLElement, anchor: Element): void {
  const { left, right, top, bottom } = anchor.getBoundingClientRect();
  const { width, height } = element.getBoundingClientRect();
  const zoom = element.currentCSSZoom ?? 1; // multiplies lengths of styles
  const { innerWidth, innerHeight } = window;
  const wantedLeft = isRtl(anchor) ? left : right - width;
  const isBelow = bottom + height + MARGIN_PX <= innerHeight || top < innerHeight - bottom;
  const clamp = (value: number, size: number, room: number) =>
    Math.max(MARGIN_PX, Math.min(value, room - size - MARGIN_PX));
  element.style.left = `${clamp(wantedLeft, width, innerWidth) / zoom}px`;
  element.style.top = `${clamp(isBelow ? bottom + 6 : top - height - 6, height, innerHeight) / zoom}px`;
}

/** Whether the text of an element runs from right to left. */
export const isRtl = (element: Element) => getComputedStyle(element).direction === 'rtl';

/** Waits for an action of the store, whose failure is in its snapshot. */
export function run(action: Promise<unknown>): void {
  action.catch(() => {});
}
