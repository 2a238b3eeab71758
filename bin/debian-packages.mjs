// Installs the Debian packages that some tests need, if this is root on Debian and they are missing: browsers
// (Chromium without and with windows, Firefox), a NATS server, and a library that changes the clock of a
// program. Otherwise these tests are skipped.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const FOR_TESTS = {
  chromium: '/usr/bin/chromium',
  'chromium-headless-shell': '/usr/bin/chromium-headless-shell',
  'firefox-esr': '/usr/bin/firefox-esr',
  'nats-server': '/usr/sbin/nats-server',
  faketime: '/usr/bin/faketime',
};

/** The font of the pictures: close to the system fonts of phones and laptops, which Debian does not have. */
export const FOR_PICTURES = { 'fonts-inter': '/usr/share/fonts/opentype/inter' };

export function ensureDebianPackages(more = {}) {
  const packages = { ...FOR_TESTS, ...more };
  const missing = Object.entries(packages).flatMap(([name, path]) => (existsSync(path) ? [] : [name]));
  if (missing.length === 0 || process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return;
  console.error(`belfry: installing ${missing.join(', ')} (once) …`);
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
