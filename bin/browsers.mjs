// Installs the browsers that tests open: Debian's Chromium, without and with windows, and Firefox, if this is
// root on Debian and they are missing. Otherwise the tests of pages are skipped.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const BROWSERS = {
  chromium: '/usr/bin/chromium',
  'chromium-headless-shell': '/usr/bin/chromium-headless-shell',
  'firefox-esr': '/usr/bin/firefox-esr',
};

export function ensureBrowsers() {
  const missing = Object.entries(BROWSERS).flatMap(([name, path]) => (existsSync(path) ? [] : [name]));
  if (missing.length === 0 || process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return;
  console.error(`belfry: installing ${missing.join(' and ')} (once) …`);
  for (const args of [['update'], ['install', '--yes', '--no-install-recommends', ...missing]]) {
    const { status, stderr } = spawnSync('apt-get', ['--quiet', ...args], {
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      stdio: ['ignore', 'ignore', 'pipe'],
      encoding: 'utf8',
    });
    if (status === 0) continue;
    console.error(`belfry: apt-get ${args[0]} failed, so tests may be skipped:\n${stderr}`);
    return;
  }
}
