/**
 * CSS selectors of elements that HTML hides itself, as e-mails hide the preheader that mail programs show
 * beside the subject. Rules of style sheets are not read: mail programs ignore many of them.
 */
export const HIDDEN_ELEMENTS: readonly string[] = [
  '[hidden]',
  ...['display:none', 'display: none', 'visibility:hidden', 'visibility: hidden'].map(
    (style) => `[style*="${style}" i]`,
  ),
];
