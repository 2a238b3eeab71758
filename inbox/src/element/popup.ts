const MARGIN = 8;

/** Places an element with `position: fixed` below another one, or above it if there is more room. */
export function placeAt(element: HTMLElement, anchor: Element, isRightToLeft: boolean): void {
  const { left, right, top, bottom } = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = element;
  const { innerWidth, innerHeight } = window;
  const wantedLeft = isRightToLeft ? left : right - width;
  const isBelow = bottom + height + MARGIN <= innerHeight || top < innerHeight - bottom;
  const clamp = (value: number, size: number, room: number) =>
    Math.max(MARGIN, Math.min(value, room - size - MARGIN));
  element.style.left = `${clamp(wantedLeft, width, innerWidth)}px`;
  element.style.top = `${clamp(isBelow ? bottom + 6 : top - height - 6, height, innerHeight)}px`;
}
