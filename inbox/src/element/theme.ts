/**
 * The custom properties of a theme: `notification.unread.textColor` is
 * `--belfry-notification-unread-text-color`.
 */
export function themeProperties(theme: object, prefix = '--belfry'): [name: string, value: string][] {
  return Object.entries(theme).flatMap(([key, value]): [string, string][] => {
    const name = `${prefix}-${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    if (value === null || value === undefined) return [];
    return typeof value === 'object' ? themeProperties(value, name) : [[name, String(value)]];
  });
}

/** Replaces what a style sheet says about the host by these properties. Values cannot add other rules. */
export function setProperties(sheet: CSSStyleSheet, properties: readonly [string, string][]): void {
  sheet.replaceSync(':host{}');
  const { style } = sheet.cssRules[0] as CSSStyleRule;
  for (const [name, value] of properties) style.setProperty(name, value);
}
