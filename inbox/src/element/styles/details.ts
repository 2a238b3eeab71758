/** The background of notifications of a status under the pointer, as the theme of the project sets it. */
const over = (status: string, background: string) => /* css */ `
  --_over: var(
    --belfry-notification-${status}-hover-background-color,
    var(--belfry-notification-hover-background-color, ${background})
  );`;

/**
 * Filters, the menu, the preferences, what appears later or is missing, rich contents, what is hovered, and
 * the buttons that appear then.
 */
export const DETAILS = /* css */ `
:host {
  --_raised: var(--belfry-dialog-background-color, light-dark(#fff, #1e2128));
}
.root {
  -webkit-tap-highlight-color: transparent;
}
button {
  touch-action: manipulation;
}
.tab:not([aria-selected="true"]):hover,
.footer button:hover {
  background: var(--_hover);
}
.scroller {
  outline-offset: -2px;
  overscroll-behavior: contain;
}
.tab:hover {
  color: var(--_text);
}
.button:hover {
  &:not(.accent) {
    border-color: var(--_muted);
  }
  &.accent {
    filter: brightness(1.08);
  }
}
.item {
  --_tool: 28px;
  --_icon: 16px;
  ${over('default', 'var(--_hover)')}
  &.unread {
    ${over('unread', 'var(--_hover)')}
  }
  &.unseen {
    ${over('unseen', 'color-mix(in srgb, var(--_accent) 11%, transparent)')}
  }
  &:is(:hover, :focus-within) {
    background: var(--_over);
  }
}
/* A click anywhere in an item is one on its title. */
.primary::after {
  content: "";
  position: absolute;
  inset: 0;
  border-radius: 8px;
}
.primary:focus-visible {
  outline: 0;
  &::after {
    outline: 2px solid var(--_accent);
    outline-offset: -2px;
  }
}
.item .tool {
  color: var(--_muted);
}
.tool:is(:hover, [aria-expanded="true"]) {
  background: var(--_pressed);
  color: var(--_text);
}
.icon-dot {
  fill: currentColor;
}
.icon-more {
  stroke-width: 3;
}
.tools {
  position: absolute;
  z-index: 2;
  top: 6px;
  inset-inline-end: 6px;
  display: flex;
  border: 1px solid var(--_line);
  border-radius: 9px;
  padding: 1px;
  background: var(--_raised);
}
@media (hover: hover) {
  .item:not(:hover, :focus-within) .tools:not(:has([aria-expanded="true"])) {
    opacity: 0;
    pointer-events: none;
  }
}
@media (hover: none) {
  .item {
    --_tool: 36px;
  }
  .tools {
    top: 30px;
    inset-inline-end: -3px; /* the dots stand below the end of the time */
    border: 0;
    background: none;
    :not(.menu-button, .menu-button *) {
      display: none;
    }
  }
}
.empty {
  display: grid;
  justify-items: center;
  align-content: center;
  gap: 6px;
  min-height: 100%;
  padding: 48px 32px;
  text-align: center;
  > :first-child {
    margin-bottom: 10px;
  }
  img {
    max-width: 200px;
    max-height: 160px;
  }
  strong {
    font-size: 15px;
  }
  p {
    color: var(--_muted);
  }
  .button {
    margin-top: 10px;
  }
}
.failed {
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  justify-content: center;
  gap: 8px 12px;
  padding: 4px 16px 20px;
  color: var(--_muted);
}
.art {
  --_icon: 32px;
  display: grid;
  place-items: center;
  width: 72px;
  height: 72px;
  border-radius: 50%;
  background: var(--_hover);
  color: var(--_muted);
}
.banner {
  display: flex;
  align-items: center;
  gap: 12px;
  padding: 8px 16px;
  background: color-mix(
    in srgb,
    var(--belfry-banner-background-color, light-dark(#fff3d6, #3b3013))
      calc(var(--belfry-banner-background-opacity, 1) * 100%),
    transparent
  );
  color: var(--belfry-banner-text-color, light-dark(#5c4300, #ffdf94));
  font-size: var(--belfry-banner-font-size, 13px);
  span {
    flex: 1;
  }
  button {
    min-height: 24px;
    font-weight: 600;
    text-decoration: underline;
  }
}
.pill {
  position: absolute;
  z-index: 3;
  inset: 8px 0 auto;
  width: fit-content;
  margin: auto;
  display: flex;
  align-items: center;
  gap: 6px;
  padding: 6px 12px;
  border-radius: 99px;
  background: var(--_accent);
  color: var(--_on-accent);
  font-size: 13px;
  font-weight: 600;
  box-shadow: var(--_shadow);
}
.filter {
  flex-shrink: 9999; /* before the title */
  min-width: 0;
  max-width: 140px;
  padding: 4px 6px;
  border: 1px solid transparent;
  border-radius: 8px;
  background: var(--_surface);
  color: var(--belfry-header-text-color, var(--_muted));
  font-size: 13px;
  cursor: pointer;
  text-overflow: ellipsis;
  &:hover {
    border-color: var(--_line);
  }
}
.actions .button {
  position: relative;
  z-index: 1; /* above the link of the item */
}
[dir="rtl"] .icon-back {
  scale: -1 1;
}
.snoozed .state {
  border: 2px solid var(--_muted);
}
option {
  background: var(--_surface);
  color: var(--_text);
}
.chip {
  --_tool: 24px;
  --_icon: 14px;
  display: flex;
  align-items: center;
  gap: 4px;
  padding-inline: 10px 4px;
  min-width: 0;
  border-radius: 8px;
  background: var(--_hover);
  font-size: 13px;
  span {
    overflow: hidden;
    text-overflow: ellipsis;
    white-space: nowrap;
  }
}
.arrived {
  animation: arrive 0.5s;
}
@keyframes arrive {
  from {
    background: color-mix(in srgb, var(--_accent) 28%, transparent);
  }
}
.content {
  > :first-child {
    margin-top: 0;
  }
  > :last-child {
    margin-bottom: 0;
  }
  :is(p, ul, ol, blockquote, pre, table, h1, h2, h3, h4, h5, h6) {
    margin-block: 6px;
  }
  :is(h1, h2, h3, h4, h5, h6) {
    font-size: inherit;
    font-weight: 600;
  }
  :is(ul, ol) {
    padding-inline-start: 20px;
  }
  blockquote {
    margin-inline: 0;
    padding-inline-start: 10px;
    border-inline-start: 3px solid var(--_line);
  }
  :is(code, pre, kbd) {
    font: 12px / 1.5 ui-monospace, monospace;
  }
  a {
    position: relative;
    z-index: 1;
    color: var(--_accent);
  }
  img {
    max-width: 100%;
    height: auto;
    border-radius: 8px;
    vertical-align: middle;
  }
  pre {
    overflow-x: auto;
    padding: 8px;
    border-radius: 8px;
    background: var(--_hover);
  }
}
.expanded {
  .content {
    display: block;
  }
  .primary {
    -webkit-line-clamp: none;
  }
}
.menu {
  --_icon: 16px;
  inset: auto;
  min-width: 200px;
  max-width: calc(100% - 16px);
  margin: 0;
  padding: 6px;
  border: 1px solid var(--_line);
  border-radius: 12px;
  background: var(--_raised);
  color: var(--belfry-dialog-text-color, var(--_text));
  box-shadow: var(--_shadow);
  outline: 0;
  > button {
    display: flex;
    align-items: center;
    gap: 10px;
    width: 100%;
    padding: 8px 10px;
    white-space: nowrap;
    &:is(:hover, :focus-visible) {
      background: var(--_pressed);
    }
  }
  span {
    flex: 1;
  }
  :is(small, .icon) {
    color: var(--_muted);
    font-size: 12px;
  }
  .danger,
  .danger .icon {
    color: light-dark(#c02b34, #ff8f90);
  }
  form {
    display: grid;
    gap: 10px;
    padding: 8px;
  }
  hr {
    margin: 6px 4px;
    border: 0;
    border-top: 1px solid var(--_line);
  }
}
.field {
  min-height: 34px;
  max-width: 100%;
  padding: 4px 8px;
  border: 1px solid light-dark(#8b919e, #6c7380);
  border-radius: 8px;
  background: var(--_surface);
  color: var(--_text);
}
.view {
  height: 100%;
  overflow: auto;
  padding: 12px 16px 24px;
  overflow-wrap: anywhere;
  background: var(--belfry-dialog-background-color, none);
  color: var(--belfry-dialog-text-color, inherit);
  p {
    color: var(--_muted);
  }
}
.group {
  padding-block: 14px;
  &:not(:last-child) {
    border-bottom: 1px solid var(--_line);
  }
  h3 {
    font-weight: 600;
  }
  p {
    font-size: 13px;
  }
}
.switches {
  display: flex;
  flex-wrap: wrap;
  gap: 10px 20px;
  margin-top: 10px;
}
.switch {
  display: inline-flex;
  align-items: center;
  gap: 8px;
  min-height: 24px;
  &,
  input {
    cursor: pointer;
  }
  &:has(:disabled),
  :disabled {
    cursor: default;
  }
}
.switch input {
  appearance: none;
  position: relative;
  width: 34px;
  height: 20px;
  border-radius: 10px;
  background: light-dark(#868c99, #5b6270);
  &::after {
    content: "";
    position: absolute;
    top: 2px;
    inset-inline-start: 2px;
    width: 16px;
    height: 16px;
    border-radius: 50%;
    background: #fff;
  }
  &:checked {
    background: var(--belfry-dialog-accent-color, var(--_accent));
    &::after {
      inset-inline-start: 16px;
    }
  }
  &:disabled {
    opacity: 0.55;
  }
}
.times {
  display: flex;
  flex-wrap: wrap;
  gap: 12px;
  margin-top: 12px;
  label {
    display: grid;
    gap: 4px;
    font-size: 13px;
    color: var(--_muted);
    min-width: 0;
  }
}
@media (forced-colors: active) {
  .icon {
    stroke: ButtonText;
  }
  .state,
  .badge {
    forced-color-adjust: none;
  }
  .tab[aria-selected="true"] {
    outline: 2px solid Highlight;
  }
  /* Backgrounds, of which a switch is made, have no colors of their own. */
  .switch input {
    appearance: auto;
    width: 20px;
    &::after {
      content: none;
    }
  }
}
`;
