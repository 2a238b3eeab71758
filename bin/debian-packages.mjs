// Installs the Debian packages that some tests need, if this is root on Debian and they are missing: browsers
// (Chromium without and with windows, Firefox) and a NATS server. Otherwise these tests are skipped.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const PACKAGES = {
  chromium: '/usr/bin/chromium',
  'chromium-headless-shell': '/usr/bin/chromium-headless-shell',
  'firefox-esr': '/usr/bin/firefox-esr',
  'nats-server': '/usr/sbin/nats-server',
};

export function ensureDebianPackages() {
  const missing = Object.entries(PACKAGES).flatMap(([name, path]) => (existsSync(path) ? [] : [name]));
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
