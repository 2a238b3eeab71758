// Shows the API reference, without anything that would connect to another host.
const main = document.querySelector('#content');
const isDark = () => document.documentElement.classList.contains('dark-mode');
const settings = () => ({
  url: main.dataset.document,
  theme: 'none',
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true, hideAddApi: true },
  mcp: { disabled: true },
  showDeveloperTools: 'never',
  hideDarkModeToggle: true,
  forceDarkModeState: isDark() ? 'dark' : 'light',
  hideClientButton: true,
  persistAuth: false,
  defaultOpenAllTags: false,
  documentDownloadType: 'json',
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  featuredClients: ['shell/curl', 'js/fetch', 'python/requests'],
});

main.replaceChildren();
const reference = globalThis.Scalar.createApiReference(main, settings());
document.addEventListener('theme', () => {
  reference.updateConfiguration(settings());
  follow();
});

// It follows the system by a listener of its own, which may run later and set what was configured before.
new MutationObserver(follow).observe(document.body, { attributeFilter: ['class'] });

/** Gives the reference the mode of the page. */
function follow() {
  const { classList } = document.body;
  if (classList.contains('dark-mode') === isDark()) return;
  classList.toggle('dark-mode', isDark());
  classList.toggle('light-mode', !isDark());
}
