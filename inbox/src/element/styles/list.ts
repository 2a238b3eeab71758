const DEFAULT = '--belfry-notification-default';
const DEFAULT_BACKGROUND = `var(${DEFAULT}-background-color, none)`;

/** The colors of notifications of a status. The theme of the project sets the properties. */
const colors = (status: string, background: string) => /* css */ `
  --_background: var(--belfry-notification-${status}-background-color, ${background});
  --_color: var(--belfry-notification-${status}-text-color, var(${DEFAULT}-text-color, currentColor));
  --_state: var(
    --belfry-notification-${status}-state-color,
    var(--belfry-notification-state-color, var(--_accent))
  );`;

/** The list and its notifications. */
export const LIST = /* css */ `
.scroller {
  height: 100%;
  overflow: auto;
  scrollbar-width: thin;
  background: var(--_surface); /* what is opaque is not painted while it scrolls */
}
.list {
  padding: 0 8px 8px;
}
.released,
.skeleton {
  background: repeating-linear-gradient(
      transparent 0 24px,
      var(--_hover) 24px 38px,
      transparent 38px 46px,
      var(--_hover) 46px 60px,
      transparent 60px 86px
    )
    40px 0 / calc(100% - 80px) no-repeat;
}
.skeleton {
  height: 516px;
  animation: pulse 1.4s infinite;
}
@keyframes pulse {
  50% {
    opacity: 0.45;
  }
}
.day {
  padding: 16px 8px 6px;
  color: var(--_muted);
  font-size: 12px;
  font-weight: 600;
}
.item {
  ${colors('default', 'none')}
  position: relative;
  display: flex;
  gap: 10px;
  margin: var(${DEFAULT}-margin, 0 0 2px);
  padding: 10px 8px;
  border-radius: var(${DEFAULT}-border-radius, 10px);
  background: var(--_background);
  color: var(--_color);
  font-family: var(${DEFAULT}-font-family, inherit);
  font-size: var(${DEFAULT}-font-size, inherit);
  overflow-wrap: anywhere;
  content-visibility: auto; /* pages of 50 are in the document, and few of their items near the screen */
  contain-intrinsic-block-size: auto 84px;
  &.unread {
    ${colors('unread', DEFAULT_BACKGROUND)}
  }
  &.unseen {
    ${colors('unseen', 'color-mix(in srgb, var(--_accent) 7%, transparent)')}
  }
}
.state {
  flex: none;
  width: 8px;
  height: 8px;
  margin-top: 8px;
  border-radius: 50%;
  background: var(${DEFAULT}-state-color);
}
.body {
  flex: 1;
  min-width: 0;
}
.top {
  display: flex;
  align-items: baseline;
  gap: 12px;
}
.heading {
  flex: 1;
  min-width: 0;
  font-weight: 500;
}
:is(.primary, .content) {
  display: -webkit-box;
  -webkit-box-orient: vertical;
  -webkit-line-clamp: 3;
  overflow: hidden;
  /* Texts have a direction of their own, and stand on the side of the inbox's. */
  text-align: -webkit-match-parent;
  text-align: match-parent;
}
.primary {
  -webkit-line-clamp: 2;
  width: 100%;
  color: inherit;
  line-height: 24px;
  text-decoration: none;
}
time {
  color: var(--_muted);
  font-size: 12px;
  white-space: nowrap;
}
:is(.unread, .unseen) {
  .state {
    background: var(--_state);
  }
  .heading {
    font-weight: 600;
  }
  time {
    color: var(--_text);
  }
}
.content {
  margin-top: 2px;
  color: color-mix(in srgb, currentColor 78%, var(--_surface));
}
.meta,
.actions {
  display: flex;
  flex-wrap: wrap;
  gap: 0 8px;
  color: var(--_muted);
  font-size: 12px;
}
.meta span:not(:empty) {
  margin-top: 4px;
}
.actions {
  gap: 8px;
  margin-top: 8px;
}
/* Tools until the styles of details.ts are loaded; the other, unless the panel fills the window. */
.tools,
.close {
  display: none;
}
@media (hover: none) {
  :is(.content, .meta, .actions) {
    max-width: calc(100% - 36px); /* no margin, because texts have a direction of their own */
  }
}
`;
