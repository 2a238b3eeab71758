// Runs before the first paint. The API reference reads the same key and classes.
(() => {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const read = () => {
    try {
      return localStorage.getItem('colorMode');
    } catch {
      return null; // the browser blocks storage
    }
  };
  const isDark = () => (read() === 'dark' ? true : read() === 'light' ? false : system.matches);

  function show() {
    for (const element of [document.documentElement, document.body]) {
      element?.classList.toggle('dark-mode', isDark());
      element?.classList.toggle('light-mode', !isDark());
    }
    document.querySelector('#theme')?.setAttribute('aria-pressed', String(isDark()));
    document.dispatchEvent(new Event('theme'));
  }

  function toggle() {
    try {
      localStorage.setItem('colorMode', isDark() ? 'light' : 'dark');
    } finally {
      show();
    }
  }

  show();
  system.addEventListener('change', show);
  addEventListener('storage', show);
  document.addEventListener('DOMContentLoaded', () => {
    show();
    document.querySelector('#theme').addEventListener('click', toggle);
  });
})();
