// Sizes are in px, because a page can set the size of `rem`. What is `!important` keeps a page's own rules
// from hiding the inbox.

/** The host, the colors that the other styles use, and what all elements have in common. */
export const HOST = /* css */ `
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
  --_hover: light-dark(#f4f5f8, #20232b);
  --_pressed: light-dark(#eceef4, #2b2f39);
  --_line: var(--belfry-border-color, light-dark(#e6e8ee, #2c3039));
  --_accent: var(--belfry-accent-color, light-dark(#4b47d6, #9a9bff));
  --_on-accent: var(--belfry-on-accent-color, light-dark(#fff, #14151c));
  --_shadow: 0 12px 40px light-dark(#14182833, #0009);
  --_radius: var(--belfry-border-radius, 12px);
}
:host(:is([mode="page"], [mode="embedded"])) {
  display: block !important;
}
/* An app hides it by an inline style, as v-show and Suspense do. */
:host([style*="display: none"]),
:host([hidden]),
[hidden] {
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
  height: 100%;
  color: var(--_text);
  color-scheme: light dark;
  font: 14px / 1.45
    var(--belfry-font-family, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif);
  -webkit-font-smoothing: antialiased;
  &[data-scheme="light"] {
    color-scheme: light;
  }
  &[data-scheme="dark"] {
    color-scheme: dark;
  }
  &[dir="rtl"] {
    direction: rtl;
  }
}
h2,
h3,
p,
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
  border-radius: 8px;
  background: none;
  cursor: pointer;
  text-align: inherit;
}
:focus-visible {
  outline: 2px solid var(--_accent);
  outline-offset: 1px;
}
.icon {
  display: block;
  flex: none;
  width: var(--_icon, 18px);
  height: var(--_icon, 18px);
  fill: none;
  stroke: currentColor;
  stroke-width: 1.75;
  stroke-linecap: round;
  stroke-linejoin: round;
}
.tool {
  flex: none;
  display: grid;
  place-items: center;
  width: var(--_tool, 32px);
  height: var(--_tool, 32px);
  color: var(--belfry-header-text-color, var(--_muted));
}
.button {
  display: inline-block;
  max-width: 100%;
  padding: 5px 12px;
  border: 1px solid var(--_line);
  border-radius: 8px;
  background: var(--_surface);
  color: var(--_text);
  font-size: 13px;
  font-weight: 600;
  text-decoration: none;
  overflow-wrap: anywhere;
  &.accent {
    border-color: transparent;
    background: var(--_accent);
    color: var(--_on-accent);
  }
}
.sr {
  position: absolute;
  width: 1px;
  height: 1px;
  overflow: hidden;
  clip-path: inset(50%);
  white-space: nowrap;
}
@media (prefers-reduced-motion: reduce) {
  * {
    animation: none !important;
  }
}
`;
