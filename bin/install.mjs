import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { findNode, LaunchError, nodePackage, root, scriptEnv } from './runtime.mjs';

const HEARTBEAT_MS = 1_000;
const STALE_MS = 15_000; // the installer is dead, or the machine slept
const ORPHAN_MS = 10 * 60_000; // how long an npm whose launcher died may go on

const lockDir = join(root, '.installing');
const modules = join(root, 'node_modules');
const record = join(modules, '.package-lock.json'); // npm writes it at the end

/**
 * Installs what package-lock.json lists, with the development tools if `dev`. Does nothing if npm recorded
 * that it is installed.
 */
export async function ensureInstalled({ dev }) {
  if (isInstalled({ dev }) && !isLocked()) return;
  await withLock(async () => {
    if (isInstalled({ dev })) return; // by another launcher, just now
    const installed = readPackages(record);
    const hasDevelopmentTools = Object.values(installed ?? {}).some((entry) => entry.dev);
    // npm writes the record last. Without it, an interrupted installation may have left half a package.
    rmSync(record, { force: true });
    await runNpm({ dev: dev || hasDevelopmentTools, update: installed !== undefined });
    if (!isInstalled({ dev }))
      throw new LaunchError('npm installed something else than package-lock.json lists');
    compileOnce();
  });
}

/** Fills the compile cache for the first start of the server. The start works without it, but slower. */
function compileOnce() {
  const [main, start] = ['main.ts', 'cli/start.ts'].map((file) => join(root, 'server', 'src', file));
  spawnSync(findNode(), ['--import', pathToFileURL(start).href, main, '--version'], {
    env: scriptEnv,
    stdio: 'ignore',
    timeout: 60_000,
  });
}

/** Compares package-lock.json with npm's record. */
function isInstalled({ dev }) {
  const wanted = readPackages(join(root, 'package-lock.json'));
  const present = readPackages(record);
  if (!wanted)
    throw new LaunchError(
      `${join(root, 'package-lock.json')} is missing or broken: is this a complete copy of Belfry?`,
    );
  if (!present) return false;
  return Object.entries(wanted).every(([path, entry]) => {
    if (!path.includes('node_modules/')) return true; // the root or a workspace
    const found = present[path];
    // An optional package is for one platform, and may be missing. Only the runtime is required.
    const needed = path === `node_modules/${nodePackage}` || !(entry.optional || entry.devOptional);
    if (!found) return !needed || (entry.dev === true && !dev);
    return (
      found.version === entry.version && found.integrity === entry.integrity && found.link === entry.link
    );
  });
}

function readPackages(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages;
  } catch (error) {
    if (error.code === 'ENOENT' || error instanceof SyntaxError) return undefined;
    throw new LaunchError(`${file} cannot be read: ${error.message}`);
  }
}

/**
 * Runs `npm ci`, or `npm install --no-save` to update a complete installation: `npm ci` starts by deleting
 * node_modules, and a server may be running on it. Both install what package-lock.json says.
 */
async function runNpm({ dev, update }) {
  console.error(`belfry: installing ${dev ? 'what the tests need' : 'its dependencies'} (once) …`);
  const command = update ? ['install', '--no-save'] : ['ci'];
  const only = dev ? '--include=dev' : '--omit=dev'; // whatever NODE_ENV and .npmrc say
  const flags = ['--include=optional', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  const windows = process.platform === 'win32';
  const child = spawn('npm', [...command, only, ...flags], {
    cwd: root,
    env: { ...process.env, PATH: pathWithoutOwnTools() },
    shell: windows, // npm is a .cmd file there
    stdio: ['ignore', 'ignore', 'inherit'], // stdout belongs to the requested command
  });
  writeFileSync(join(lockDir, 'npm.pid'), String(child.pid));
  const interrupt = (signal) => child.kill(signal);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, interrupt);
  try {
    const [code, signal] = await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (...ended) => resolve(ended));
    });
    if (code !== 0)
      throw new LaunchError(`npm ${command[0]} failed (${signal ?? code}): nothing was started`);
  } catch (error) {
    if (error.code === 'ENOENT')
      throw new LaunchError('npm was not found: install it, because it installs the dependencies');
    throw error;
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.off(signal, interrupt);
  }
}

/** npm must not run on the Node in node_modules/.bin, which it may replace. */
function pathWithoutOwnTools() {
  const own = join(root, 'node_modules', '.bin');
  return (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => folder !== own)
    .join(delimiter);
}

/** Runs `work` under a lock. The lock is a folder whose owner updates its mtime every second. */
async function withLock(work) {
  while (!takeLock()) await sleep(100 + Math.random() * 100);
  const heartbeat = setInterval(() => {
    const now = new Date();
    utimesSync(lockDir, now, now);
  }, HEARTBEAT_MS);
  try {
    await work();
  } finally {
    clearInterval(heartbeat);
    rmSync(lockDir, { recursive: true, force: true });
  }
}

function takeLock() {
  try {
    mkdirSync(lockDir);
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST')
      throw new LaunchError(`dependencies are missing, and ${root} is not writable: ${error.message}`);
  }
  if (!isLocked()) {
    // Renaming is atomic: one launcher moves the stale lock, and the others retry.
    const away = `${lockDir}.${process.pid}`;
    try {
      renameSync(lockDir, away);
      rmSync(away, { recursive: true, force: true });
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
    }
  }
  return false;
}

function isLocked() {
  const age = Date.now() - (statSync(lockDir, { throwIfNoEntry: false })?.mtimeMs ?? 0);
  return age < STALE_MS || (age < ORPHAN_MS && isNpmAlive());
}

function isNpmAlive() {
  try {
    const pid = Number(readFileSync(join(lockDir, 'npm.pid'), 'utf8'));
    return pid > 0 && process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
}
