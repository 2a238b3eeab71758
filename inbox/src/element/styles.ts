/** The style of the inbox. Sizes are in px, because a page can set the size of `rem`. */
export const STYLES = /* css */ `
:host {
  display: inline-block !important;
  visibility: visible !important;
  opacity: 1 !important;
  filter: none !important;
  transform: none !important;
  clip-path: none !important;
  zoom: 1 !important;
  --_text: var(--belfry-text-color, light-dark(#1c1f26, #eceef2));
  --_muted: var(--belfry-muted-color, light-dark(#5b6270, #a0a7b4));
  --_surface: var(--belfry-background-color, light-dark(#fff, #17191f));
  --_raised: var(--belfry-dialog-background-color, light-dark(#fff, #1e2128));
  --_hover: light-dark(#f4f5f8, #20232b);
  --_line: var(--belfry-border-color, light-dark(#e6e8ee, #2c3039));
  --_accent: var(--belfry-accent-color, light-dark(#4b47d6, #9a9bff));
  --_on-accent: var(--belfry-on-accent-color, light-dark(#fff, #14151c));
  --_danger: light-dark(#c02b34, #ff8f90);
  --_radius: var(--belfry-border-radius, 12px);
  --_font: var(--belfry-font-family, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif);
}
:host([mode="page"]),
:host([mode="embedded"]) {
  display: block !important;
}
:host([hidden]) {
  display: none !important;
}
*,
::before,
::after {
  box-sizing: border-box;
}
.root {
  all: initial;
  display: block;
  block-size: 100%;
  color: var(--_text);
  color-scheme: light dark;
  font: 14px / 1.45 var(--_font);
  text-align: start;
  -webkit-font-smoothing: antialiased;
  -webkit-tap-highlight-color: transparent;
}
.root[dir="rtl"] {
  direction: rtl;
}
.root[data-scheme="light"] {
  color-scheme: light;
}
.root[data-scheme="dark"] {
  color-scheme: dark;
}
[hidden] {
  display: none !important;
}
h2,
h3,
p {
  margin: 0;
  font: inherit;
}
button,
input,
select {
  margin: 0;
  font: inherit;
  color: inherit;
  letter-spacing: inherit;
}
button {
  padding: 0;
  border: 0;
  background: none;
  cursor: pointer;
  text-align: inherit;
  touch-action: manipulation;
}
:focus-visible {
  outline: 2px solid var(--_accent);
  outline-offset: 1px;
  border-radius: 6px;
}
.icon {
  display: block;
  inline-size: 18px;
  block-size: 18px;
  fill: none;
  stroke: currentColor;
  stroke-width: 1.75;
  stroke-linecap: round;
  stroke-linejoin: round;
}
.icon-dot {
  fill: currentColor;
}
.icon-more {
  stroke-width: 3;
}
.root[dir="rtl"] .icon-back {
  scale: -1 1;
}
.sr {
  position: absolute;
  inline-size: 1px;
  block-size: 1px;
  overflow: hidden;
  clip-path: inset(50%);
  white-space: nowrap;
}

.bell {
  position: relative;
  display: grid;
  place-items: center;
  inline-size: 40px;
  block-size: 40px;
  border-radius: 10px;
  color: var(--belfry-icon-border-color, var(--_text));
}
.bell:hover,
.bell[aria-expanded="true"] {
  background: var(--_hover);
}
.bell .icon {
  inline-size: var(--belfry-icon-width, 22px);
  block-size: var(--belfry-icon-width, 22px);
}
.badge {
  position: absolute;
  inset-block-start: 3px;
  inset-inline-start: 50%;
  min-inline-size: 18px;
  padding-inline: 5px;
  border-radius: 9px;
  background: var(--belfry-unseen-badge-background-color, light-dark(#d0293b, #ff8590));
  box-shadow: 0 0 0 2px var(--_surface);
  color: var(--belfry-unseen-badge-text-color, light-dark(#fff, #1a0a0c));
  font-size: 11px;
  font-weight: 650;
  line-height: 18px;
  text-align: center;
  font-variant-numeric: tabular-nums;
}

.panel {
  position: relative;
  display: flex;
  flex-direction: column;
  inline-size: 100%;
  block-size: 100%;
  min-block-size: 0;
  padding: 0;
  margin: 0;
  border: 0;
  overflow: hidden;
  background: var(--_surface);
  color: inherit;
  outline: none;
}
.root[data-mode="page"] .panel {
  block-size: var(--belfry-height, 100dvh);
}
.root[data-mode="page"] :is(.bar, .tabs, .banner, .list, .footer, .view) {
  padding-inline: max(16px, calc((100% - 760px) / 2));
}
.root[data-mode="embedded"] .panel {
  block-size: var(--belfry-height, 560px);
  border: 1px solid var(--_line);
  border-radius: var(--_radius);
}
.panel[popover] {
  position: fixed;
  inset: auto;
  inline-size: min(var(--belfry-width, 420px), 100vw - 16px);
  block-size: min(var(--belfry-height, 640px), 100dvh - 80px);
  border: 1px solid var(--_line);
  border-radius: var(--_radius);
  box-shadow:
    0 16px 48px light-dark(rgb(20 24 40 / 0.18), rgb(0 0 0 / 0.6)),
    0 2px 6px light-dark(rgb(20 24 40 / 0.08), rgb(0 0 0 / 0.4));
}
.panel[popover]:not(:popover-open) {
  display: none;
}
.panel[popover]:popover-open {
  animation: open 0.14s ease-out;
}
@keyframes open {
  from {
    opacity: 0;
    translate: 0 -6px;
    scale: 0.985;
  }
}

.header {
  flex: none;
  background: var(--belfry-header-background-color, transparent);
  border-radius: var(--belfry-header-border-radius, 0);
  border-block-end: 1px solid var(--_line);
  color: var(--belfry-header-text-color, inherit);
  font-family: var(--belfry-header-font-family, inherit);
}
.bar {
  display: flex;
  align-items: center;
  gap: 2px;
  min-block-size: 52px;
  padding-inline: 16px 8px;
  padding-block: 8px 4px;
}
.bar h2 {
  flex: 1;
  font-size: var(--belfry-header-font-size, 16px);
  font-weight: 650;
  letter-spacing: -0.01em;
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}
.tool {
  flex: none;
  display: grid;
  place-items: center;
  inline-size: 32px;
  block-size: 32px;
  border-radius: 8px;
  color: var(--_muted);
}
.header .tool {
  color: var(--belfry-header-text-color, var(--_muted));
}
.tool:hover,
.tool[aria-expanded="true"] {
  background: light-dark(#e9ebf1, #2b2f39);
  color: var(--_text);
}
.tool:disabled {
  opacity: 0.4;
  cursor: default;
  background: none;
}
.tabs {
  display: flex;
  align-items: center;
  gap: 4px;
  padding: 0 12px 8px;
}
.tabs [role="tablist"] {
  display: flex;
  gap: 2px;
  flex: 1;
  min-inline-size: 0;
  overflow-x: auto;
  scrollbar-width: none;
  padding: 2px;
}
.tab {
  flex: none;
  padding: 5px 10px;
  border-radius: 8px;
  color: var(--belfry-header-text-color, var(--_muted));
  font-size: 13px;
  font-weight: 550;
  white-space: nowrap;
}
.tab:hover {
  background: var(--_hover);
  color: var(--_text);
}
.tab[aria-selected="true"] {
  background: light-dark(#eceef4, #2b2f39);
  color: var(--_text);
}
.tab .count {
  margin-inline-start: 6px;
  color: var(--_accent);
  font-variant-numeric: tabular-nums;
  font-weight: 650;
}
.filter {
  max-inline-size: 140px;
  min-block-size: 30px;
  padding: 4px 6px;
  border: 1px solid transparent;
  border-radius: 8px;
  background: var(--_surface);
  color: var(--belfry-header-text-color, var(--_muted));
  font-size: 13px;
  cursor: pointer;
  text-overflow: ellipsis;
}
.filter:hover {
  border-color: var(--_line);
}
.filter option {
  background: var(--_surface);
  color: var(--_text);
}
.chip {
  display: inline-flex;
  align-items: center;
  gap: 4px;
  padding-inline: 10px 4px;
  min-inline-size: 0;
  border-radius: 8px;
  background: var(--_hover);
  font-size: 13px;
}
.chip .tool {
  inline-size: 24px;
  block-size: 24px;
}
.chip .icon {
  inline-size: 14px;
  block-size: 14px;
}

.banner {
  flex: none;
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
}
.banner span {
  flex: 1;
}
.link {
  font-weight: 600;
  text-decoration: underline;
  text-underline-offset: 2px;
  min-block-size: 24px;
}

.scroller {
  position: relative;
  flex: 1;
  min-block-size: 0;
  overflow: auto;
  overscroll-behavior: contain;
  scrollbar-width: thin;
  outline-offset: -2px;
}
.list {
  padding: 0 8px 8px;
}
.block {
  position: relative;
}
.block.released {
  background:
    repeating-linear-gradient(
      transparent 0 24px,
      var(--_hover) 24px 38px,
      transparent 38px 46px,
      var(--_hover) 46px 60px,
      transparent 60px 86px
    )
    40px 0 / calc(100% - 80px) no-repeat;
}
.day {
  padding: 16px 8px 6px;
  color: var(--_muted);
  font-size: 12px;
  font-weight: 600;
}
.item {
  position: relative;
  display: flex;
  gap: 10px;
  margin: var(--belfry-notification-default-margin, 0 0 2px);
  padding: 10px 10px 10px 8px;
  border-radius: var(--belfry-notification-default-border-radius, 10px);
  background: var(--_item-background, var(--belfry-notification-default-background-color, transparent));
  color: var(--_item-text, var(--belfry-notification-default-text-color, inherit));
  font-family: var(--belfry-notification-default-font-family, inherit);
  font-size: var(--belfry-notification-default-font-size, inherit);
  --_item-hover: var(
    --belfry-notification-default-hover-background-color,
    var(--belfry-notification-hover-background-color, var(--_hover))
  );
  --_item-state: var(
    --belfry-notification-default-state-color,
    var(--belfry-notification-state-color, var(--_accent))
  );
}
.root[dir="rtl"] .item {
  padding: 10px 8px 10px 10px;
}
.item.unread {
  --_item-background: var(--belfry-notification-unread-background-color, initial);
  --_item-text: var(--belfry-notification-unread-text-color, initial);
  --_item-hover: var(
    --belfry-notification-unread-hover-background-color,
    var(--belfry-notification-hover-background-color, var(--_hover))
  );
  --_item-state: var(
    --belfry-notification-unread-state-color,
    var(--belfry-notification-state-color, var(--_accent))
  );
}
.item.unseen {
  --_item-background: var(
    --belfry-notification-unseen-background-color,
    color-mix(in srgb, var(--_accent) 7%, transparent)
  );
  --_item-text: var(--belfry-notification-unseen-text-color, initial);
  --_item-hover: var(
    --belfry-notification-unseen-hover-background-color,
    var(--belfry-notification-hover-background-color, color-mix(in srgb, var(--_accent) 11%, transparent))
  );
  --_item-state: var(
    --belfry-notification-unseen-state-color,
    var(--belfry-notification-state-color, var(--_accent))
  );
}
.item:hover,
.item:focus-within {
  background: var(--_item-hover);
}
.item.arrived {
  animation: arrive 0.5s ease-out;
}
@keyframes arrive {
  from {
    background: color-mix(in srgb, var(--_accent) 28%, transparent);
  }
}
.state {
  flex: none;
  inline-size: 8px;
  block-size: 8px;
  margin-block-start: 7px;
  border-radius: 50%;
}
:is(.unread, .unseen) .state {
  background: var(--_item-state);
}
.snoozed .state {
  border: 2px solid var(--_muted);
}
.body {
  flex: 1;
  min-inline-size: 0;
}
.top {
  display: flex;
  align-items: baseline;
  gap: 12px;
}
.heading {
  flex: 1;
  min-inline-size: 0;
  font-weight: 500;
  overflow-wrap: anywhere;
}
:is(.unread, .unseen) .heading {
  font-weight: 650;
}
.primary {
  min-block-size: 24px;
  line-height: 24px;
  display: -webkit-box;
  -webkit-box-orient: vertical;
  -webkit-line-clamp: 2;
  overflow: hidden;
  inline-size: 100%;
  color: inherit;
  font-weight: inherit;
  text-decoration: none;
  overflow-wrap: anywhere;
}
.primary::after {
  content: "";
  position: absolute;
  inset: 0;
  border-radius: inherit;
}
.primary:focus-visible {
  outline: none;
}
.primary:focus-visible::after {
  outline: 2px solid var(--_accent);
  outline-offset: -2px;
  border-radius: 10px;
}
.item time {
  flex: none;
  color: var(--_muted);
  font-size: 12px;
  font-variant-numeric: tabular-nums;
  white-space: nowrap;
}
:is(.unread, .unseen) time {
  color: var(--_text);
}
/* Texts have a direction of their own, and stand on the side of the inbox's. */
:is(.primary, .content) {
  text-align: -webkit-match-parent;
  text-align: match-parent;
}
.content {
  margin-block-start: 2px;
  color: color-mix(in srgb, currentColor 78%, var(--_surface));
  overflow-wrap: anywhere;
  display: -webkit-box;
  -webkit-box-orient: vertical;
  -webkit-line-clamp: 3;
  overflow: hidden;
}
.expanded .content {
  display: block;
}
.expanded .primary {
  -webkit-line-clamp: none;
}
.content > :first-child {
  margin-block-start: 0;
}
.content > :last-child {
  margin-block-end: 0;
}
.content :is(p, ul, ol, blockquote, pre, table) {
  margin-block: 6px;
}
.content :is(h1, h2, h3, h4, h5, h6) {
  margin-block: 6px 2px;
  font-size: inherit;
  font-weight: 650;
}
.content :is(ul, ol) {
  padding-inline-start: 20px;
}
.content blockquote {
  margin-inline: 0;
  padding-inline-start: 10px;
  border-inline-start: 3px solid var(--_line);
}
.content :is(code, pre, kbd) {
  font:
    12px / 1.5 ui-monospace,
    monospace;
}
.content pre {
  overflow-x: auto;
  padding: 8px;
  border-radius: 6px;
  background: var(--_hover);
}
.content a {
  position: relative;
  z-index: 1;
  color: var(--_accent);
}
.content img {
  max-inline-size: 100%;
  block-size: auto;
  border-radius: 8px;
  vertical-align: middle;
}
.meta {
  display: flex;
  flex-wrap: wrap;
  gap: 4px 8px;
  margin-block-start: 4px;
  color: var(--_muted);
  font-size: 12px;
}
.actions {
  position: relative;
  z-index: 1;
  display: flex;
  flex-wrap: wrap;
  gap: 8px;
  margin-block-start: 8px;
  pointer-events: none;
}
.actions > * {
  pointer-events: auto;
}
.button {
  display: inline-block;
  max-inline-size: 100%;
  padding: 5px 12px;
  border: 1px solid var(--_line);
  border-radius: 8px;
  background: var(--_surface);
  color: var(--_text);
  font-size: 13px;
  font-weight: 600;
  text-decoration: none;
  overflow-wrap: anywhere;
}
.button:hover {
  border-color: var(--_muted);
}
.button.primary-button {
  border-color: transparent;
  background: var(--_accent);
  color: var(--_on-accent);
}
.button.primary-button:hover {
  filter: brightness(1.08);
}
.tools {
  position: absolute;
  z-index: 2;
  inset-block-start: 6px;
  inset-inline-end: 6px;
  display: flex;
  padding: 1px;
  border: 1px solid var(--_line);
  border-radius: 9px;
  background: var(--_raised);
  opacity: 0;
  pointer-events: none;
}
.item:hover .tools,
.item:focus-within .tools,
.tools:has([aria-expanded="true"]) {
  opacity: 1;
  pointer-events: auto;
}
.tools .tool {
  inline-size: 28px;
  block-size: 28px;
  border-radius: 7px;
}
.tools .icon {
  inline-size: 16px;
  block-size: 16px;
}
@media (hover: none) {
  .item {
    padding-inline-end: 40px !important;
  }
  .tools {
    opacity: 1;
    pointer-events: auto;
    border: 0;
    background: none;
    inset-block-start: 28px;
  }
  .tools .tool:not(.menu-button) {
    display: none;
  }
  .tools .tool {
    inline-size: 36px;
    block-size: 36px;
  }
}
.pill {
  position: absolute;
  z-index: 3;
  inset-inline: 0;
  inset-block-start: 8px;
  inline-size: fit-content;
  margin-inline: auto;
  display: flex;
  align-items: center;
  gap: 6px;
  padding: 6px 14px 6px 10px;
  border-radius: 999px;
  background: var(--_accent);
  color: var(--_on-accent);
  font-size: 13px;
  font-weight: 600;
  box-shadow: 0 4px 16px rgb(0 0 0 / 0.2);
}
.pill .icon {
  inline-size: 16px;
  block-size: 16px;
}
.body-area {
  position: relative;
  flex: 1;
  min-block-size: 0;
  display: flex;
  flex-direction: column;
}

.empty {
  display: grid;
  justify-items: center;
  align-content: center;
  gap: 6px;
  min-block-size: 100%;
  padding: 48px 32px;
  text-align: center;
}
.empty .art {
  display: grid;
  place-items: center;
  inline-size: 72px;
  block-size: 72px;
  margin-block-end: 10px;
  border-radius: 50%;
  background: var(--_hover);
  color: var(--_muted);
}
.empty .art .icon {
  inline-size: 32px;
  block-size: 32px;
  stroke-width: 1.4;
}
.empty img {
  max-inline-size: 200px;
  max-block-size: 160px;
  margin-block-end: 10px;
}
.empty strong {
  font-size: 15px;
  font-weight: 650;
}
.empty p {
  color: var(--_muted);
}
.empty .button {
  margin-block-start: 10px;
}
.skeleton {
  display: flex;
  gap: 12px;
  padding: 14px 16px;
}
.skeleton::before {
  content: "";
  flex: none;
  inline-size: 8px;
  block-size: 8px;
  margin-block-start: 4px;
  border-radius: 50%;
  background: var(--_line);
}
.skeleton span {
  flex: 1;
  block-size: 34px;
  border-radius: 4px;
  background: linear-gradient(var(--_line) 0 12px, transparent 12px 22px, var(--_hover) 22px);
  animation: pulse 1.4s ease-in-out infinite;
}
@keyframes pulse {
  50% {
    opacity: 0.45;
  }
}

.footer {
  flex: none;
  display: flex;
  align-items: center;
  gap: 8px;
  min-block-size: 44px;
  padding: 4px 8px 4px 16px;
  background: var(--belfry-footer-background-color, transparent);
  border-block-start: 1px solid var(--_line);
  border-radius: var(--belfry-footer-border-radius, 0);
  color: var(--belfry-footer-text-color, var(--_muted));
  font-size: var(--belfry-footer-font-size, 13px);
}
.footer button {
  display: flex;
  align-items: center;
  gap: 8px;
  padding: 6px 8px;
  margin-inline-start: -8px;
  border-radius: 8px;
  color: inherit;
  font-size: inherit;
  font-weight: 550;
}
.footer button:hover {
  background: var(--_hover);
}

.menu {
  position: fixed;
  inset: auto;
  min-inline-size: 200px;
  max-inline-size: calc(100vw - 16px);
  margin: 0;
  padding: 6px;
  border: 1px solid var(--_line);
  border-radius: 12px;
  background: var(--_raised);
  color: var(--belfry-dialog-text-color, var(--_text));
  box-shadow: 0 12px 32px light-dark(rgb(20 24 40 / 0.2), rgb(0 0 0 / 0.6));
  outline: none;
}
.menu > button {
  display: flex;
  align-items: center;
  gap: 10px;
  inline-size: 100%;
  padding: 8px 10px;
  border-radius: 8px;
  white-space: nowrap;
}
.menu > button:hover,
.menu > button:focus-visible {
  background: light-dark(#eef0f5, #2c303a);
}
.menu > button span {
  flex: 1;
}
.menu small {
  color: var(--_muted);
  font-size: 12px;
}
.menu .icon {
  inline-size: 16px;
  block-size: 16px;
  color: var(--_muted);
}
.menu .danger,
.menu .danger .icon {
  color: var(--_danger);
}
.menu form {
  display: grid;
  gap: 10px;
  padding: 8px;
}
.menu hr {
  margin: 6px 4px;
  border: 0;
  border-block-start: 1px solid var(--_line);
}
.field {
  min-block-size: 34px;
  padding: 4px 8px;
  border: 1px solid light-dark(#8b919e, #6c7380);
  border-radius: 8px;
  background: var(--_surface);
  color: var(--_text);
}

.view {
  flex: 1;
  min-block-size: 0;
  overflow: auto;
  padding: 12px 16px 24px;
  background: var(--belfry-dialog-background-color, transparent);
  color: var(--belfry-dialog-text-color, inherit);
}
.view > p {
  color: var(--_muted);
  margin-block-end: 4px;
}
.group {
  padding-block: 14px;
  border-block-end: 1px solid var(--_line);
}
.group:last-child {
  border: 0;
}
.group h3 {
  font-weight: 650;
}
.group p {
  color: var(--_muted);
  font-size: 13px;
}
.switches {
  display: flex;
  flex-wrap: wrap;
  gap: 10px 20px;
  margin-block-start: 10px;
}
.switch {
  display: inline-flex;
  align-items: center;
  gap: 8px;
  min-block-size: 24px;
  cursor: pointer;
}
.switch input {
  appearance: none;
  position: relative;
  inline-size: 34px;
  block-size: 20px;
  border-radius: 10px;
  background: light-dark(#868c99, #5b6270);
  cursor: pointer;
  transition: background 0.15s;
}
.switch input::after {
  content: "";
  position: absolute;
  inset-block-start: 2px;
  inset-inline-start: 2px;
  inline-size: 16px;
  block-size: 16px;
  border-radius: 50%;
  background: #fff;
  transition: inset-inline-start 0.15s;
}
.switch input:checked {
  background: var(--belfry-dialog-accent-color, var(--_accent));
}
.switch input:checked::after {
  inset-inline-start: 16px;
}
.switch input:disabled {
  opacity: 0.55;
  cursor: default;
}
.switch:has(:disabled) {
  cursor: default;
}
.times {
  display: flex;
  flex-wrap: wrap;
  gap: 12px;
  margin-block-start: 12px;
}
.times label {
  display: grid;
  gap: 4px;
  font-size: 13px;
  color: var(--_muted);
  min-inline-size: 0;
}
.times select {
  max-inline-size: 100%;
}

@media (max-width: 480px) {
  .panel[popover] {
    inset: 0 !important;
    inline-size: 100vw;
    block-size: 100dvh;
    max-inline-size: none;
    max-block-size: none;
    border: 0;
    border-radius: 0;
  }
}
@media (min-width: 481px) {
  .panel[popover] .close {
    display: none;
  }
}
.root:not([data-mode="popover"]) .close {
  display: none;
}
@media (prefers-reduced-motion: reduce) {
  *,
  ::before,
  ::after {
    animation: none !important;
    transition: none !important;
    scroll-behavior: auto !important;
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
}
`;
