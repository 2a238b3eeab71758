/** Debian's. */
export const CHROMIUM = '/usr/bin/chromium';

// Chromium has no sandbox as root. The rest keeps it from calling hosts of its vendor.
export const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
];
