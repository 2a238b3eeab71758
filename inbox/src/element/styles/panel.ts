/** The bell, and the panel around the list: header, tabs, messages and footer. */
export const PANEL = /* css */ `
.bell {
  --_icon: var(--belfry-icon-width, 22px);
  position: relative;
  display: grid;
  place-items: center;
  width: 40px;
  height: 40px;
  color: var(--belfry-icon-border-color, inherit);
  &:is(:hover, [aria-expanded="true"]) {
    background: var(--_hover);
  }
}
.badge {
  position: absolute;
  top: 3px;
  inset-inline-start: 50%;
  min-width: 18px;
  padding: 0 5px;
  border-radius: 9px;
  background: var(--belfry-unseen-badge-background-color, light-dark(#d0293b, #ff8590));
  box-shadow: 0 0 0 2px var(--_surface);
  color: var(--belfry-unseen-badge-text-color, light-dark(#fff, #1a0a0c));
  font-size: 11px;
  font-weight: 600;
  line-height: 18px;
  text-align: center;
}
.panel {
  display: flex;
  flex-direction: column;
  width: 100%;
  height: 100%;
  padding: 0;
  margin: 0;
  border: 0 solid var(--_line);
  overflow: hidden;
  background: var(--_surface);
  color: inherit;
  outline: 0;
  [data-mode="page"] & {
    height: var(--belfry-height, 100dvh);
    :is(.bar, .tabs, .banner, .list, .footer, .view) {
      padding-inline: max(16px, (100% - 760px) / 2);
    }
  }
  [data-mode="embedded"] & {
    height: var(--belfry-height, 560px);
    border-width: 1px;
    border-radius: var(--_radius);
  }
  [data-mode="popover"] & {
    inset: auto;
    /* Percentages, because zoom of the page multiplies vw and dvh. */
    width: min(var(--belfry-width, 420px), 100% - 16px);
    height: min(var(--belfry-height, 640px), 100% - 80px);
    border-width: 1px;
    border-radius: var(--_radius);
    box-shadow: var(--_shadow);
    animation: open 0.14s ease-out;
    &:not(:popover-open) {
      display: none;
    }
    @media (width <= 480px) {
      inset: 0 !important;
      width: 100%;
      height: 100%;
      border: 0;
      border-radius: 0;
      .close {
        display: grid;
      }
    }
  }
}
@keyframes open {
  from {
    opacity: 0;
    translate: 0 -6px;
  }
}
.header {
  background: var(--belfry-header-background-color, none);
  border-radius: var(--belfry-header-border-radius, 0);
  border-bottom: 1px solid var(--_line);
  color: var(--belfry-header-text-color, inherit);
  font-family: var(--belfry-header-font-family, inherit);
}
.bar {
  display: flex;
  align-items: center;
  gap: 2px;
  min-height: 52px;
  padding: 8px 8px 4px;
  padding-inline-start: 16px;
}
.bar h2 {
  flex: auto;
  font-size: var(--belfry-header-font-size, 16px);
  font-weight: 600;
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}
.tabs {
  padding: 0 12px 8px;
}
[role="tablist"] {
  display: flex;
  gap: 2px;
  padding: 2px;
  container-type: inline-size;
}
.tab {
  padding: 5px clamp(2px, 4cqi - 8px, 10px);
  overflow: hidden;
  text-overflow: ellipsis;
  color: var(--belfry-header-text-color, var(--_muted));
  font-size: clamp(11px, 4cqi - 1px, 13px);
  font-weight: 600;
  white-space: nowrap;
  &[aria-selected="true"] {
    background: var(--_pressed);
    color: var(--_text);
  }
  span {
    margin-inline-start: 2px;
    color: var(--_accent);
  }
}
.area {
  position: relative;
  flex: 1;
  min-height: 0;
}
.footer {
  padding: 6px 16px;
  background: var(--belfry-footer-background-color, none);
  border-top: 1px solid var(--_line);
  border-radius: var(--belfry-footer-border-radius, 0);
  color: var(--belfry-footer-text-color, var(--_muted));
  font-size: var(--belfry-footer-font-size, 13px);
  button {
    display: flex;
    align-items: center;
    gap: 8px;
    padding: 6px 8px;
    margin-inline: -8px;
    font-weight: 600;
  }
}
`;
