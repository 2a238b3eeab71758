import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** Copies the launcher to a folder, with a server of one line and an npm that records its calls. */
let copy: string;
beforeEach(async () => {
  copy = await mkdtemp(join(tmpdir(), 'belfry-launcher-'));
  await cp(join(root, 'bin'), join(copy, 'bin'), { recursive: true });
  await mkdir(join(copy, 'server/src'), { recursive: true });
  await mkdir(join(copy, 'path'));
  await writeFile(join(copy, 'package.json'), '{ "type": "module" }');
  await writeFile(
    join(copy, 'server/src/main.ts'),
    'console.log(JSON.stringify(process.argv.slice(2) as string[]));',
  );
  await writeFile(join(copy, 'package-lock.json'), JSON.stringify({ packages: LOCKED }));
  await writeFile(join(copy, 'path/npm'), NPM);
  await chmod(join(copy, 'path/npm'), 0o755);
});
afterEach(() => rm(copy, { recursive: true, force: true }));

const LOCKED = {
  '': { name: 'belfry' },
  'node_modules/needed': { version: '1.0.0', integrity: 'sha512-one' },
  'node_modules/tool': { version: '2.0.0', integrity: 'sha512-two', dev: true },
  'node_modules/for-another-platform': { version: '3.0.0', optional: true, os: ['none'] },
};

/**
 * Changes a folder as npm does, as far as the launcher depends on it. NPM_DOES: install (default), fail,
 * hang.
 */
const NPM = `#!${process.execPath}
import fs from 'node:fs';
const args = process.argv.slice(2);
fs.appendFileSync('npm.log', args.join(' ') + '\\n');
if (process.env.NPM_DOES === 'fail') { console.error('npm error: the registry is away'); process.exit(7); }
if (args[0] === 'ci') fs.rmSync('node_modules', { recursive: true, force: true });
fs.mkdirSync('node_modules/needed', { recursive: true });
fs.writeFileSync('node_modules/needed/half', '');
if (process.env.NPM_DOES === 'hang') { console.error('hanging'); setInterval(() => {}, 1000); } else {
  const { packages } = JSON.parse(fs.readFileSync('package-lock.json', 'utf8'));
  const omitDev = args.includes('--omit=dev');
  const wanted = Object.entries(packages)
    .filter(([path, entry]) => path !== '' && !entry.os && !(entry.dev && omitDev));
  fs.rmSync('node_modules/needed/half');
  const installed = { packages: Object.fromEntries(wanted) };
  fs.writeFileSync('node_modules/.package-lock.json', JSON.stringify(installed));
}
`;

function launch(args: string[], environment: Record<string, string> = {}): ChildProcess {
  const PATH = `${join(copy, 'path')}${delimiter}${process.env.PATH}`;
  return spawn(process.execPath, [join(copy, 'bin/belfry.mjs'), ...args], {
    // Without the cache of the process that runs the tests.
    env: { ...process.env, NODE_COMPILE_CACHE: undefined, PATH, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

interface Ended {
  code: number | null;
  out: string;
  err: string;
}

async function end(child: ChildProcess): Promise<Ended> {
  if (child.stdout === null || child.stderr === null) throw new Error('the output is not piped');
  const [[code], out, err] = await Promise.all([
    once(child, 'close'),
    text(child.stdout),
    text(child.stderr),
  ]);
  return { code, out, err };
}

async function npmCalls(): Promise<string[]> {
  return (await readFile(join(copy, 'npm.log'), 'utf8')).trimEnd().split('\n');
}

/** Waits until the child has printed `what` to standard error. */
async function printed(child: ChildProcess, what: string): Promise<void> {
  let heard = '';
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  child.stderr?.on('data', (chunk) => {
    heard += chunk;
    if (heard.includes(what)) resolve();
  });
  child.once('close', () => reject(new Error(`ended without saying ${what}: ${heard}`)));
  return promise;
}

describe('installing', () => {
  test('happens once, without scripts, development tools or output to standard output', async () => {
    const first = await end(launch(['token', 'list', '--json']));
    expect(first).toEqual({
      code: 0,
      out: '["token","list","--json"]\n',
      err: 'belfry: installing its dependencies (once) …\n',
    });
    expect(await end(launch([]))).toEqual({ code: 0, out: '[]\n', err: '' });
    expect(await npmCalls()).toHaveLength(1);
    expect((await npmCalls())[0]).toMatch(/^ci --omit=dev .*--ignore-scripts/);
  });

  test('is done by one of two concurrent launchers', async () => {
    const ended = await Promise.all([end(launch(['a'])), end(launch(['b']))]);
    expect(ended.map(({ code, out }) => [code, out])).toEqual([
      [0, '["a"]\n'],
      [0, '["b"]\n'],
    ]);
    expect(await npmCalls()).toHaveLength(1);
  });

  test('updates in place for another lock file, with development tools if there are any', async () => {
    await mkdir(join(copy, 'node_modules'));
    await writeFile(join(copy, 'node_modules/.package-lock.json'), JSON.stringify({ packages: LOCKED }));
    expect((await end(launch([]))).code).toBe(0);
    expect(existsSync(join(copy, 'npm.log')), 'what was installed by hand is left alone').toBe(false);

    const packages = { ...LOCKED, 'node_modules/needed': { version: '1.0.1', integrity: 'sha512-three' } };
    await writeFile(join(copy, 'package-lock.json'), JSON.stringify({ packages }));
    expect((await end(launch([]))).code).toBe(0);
    expect(await npmCalls()).toEqual([expect.stringMatching(/^install --no-save --include=dev /)]);
  });

  test('that was killed is started again by the next launcher', async () => {
    const killed = launch([], { NPM_DOES: 'hang' });
    const ended = once(killed, 'close');
    await printed(killed, 'hanging');
    const npm = Number(await readFile(join(copy, '.installing/npm.pid'), 'utf8'));
    killed.kill('SIGKILL');
    process.kill(npm, 'SIGKILL');
    await ended;
    // The last heartbeat looks old.
    await utimes(join(copy, '.installing'), new Date(0), new Date(0));

    expect(await end(launch([]))).toMatchObject({ code: 0, out: '[]\n' });
    expect(existsSync(join(copy, 'node_modules/needed/half'))).toBe(false);
    expect(existsSync(join(copy, '.installing'))).toBe(false);
  });

  test('that fails prints the output of npm and ends with 1', async () => {
    const { code, out, err } = await end(launch([], { NPM_DOES: 'fail' }));
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(/npm error: the registry is away\nbelfry: npm ci failed \(7\): .*\n$/);
  });

  test('is cancelled by SIGTERM, and leaves no lock', async () => {
    const child = launch([], { NPM_DOES: 'hang' });
    const ended = once(child, 'close');
    await printed(child, 'hanging');
    child.kill('SIGTERM');
    expect(await ended).toEqual([1, null]);
    expect(existsSync(join(copy, '.installing'))).toBe(false);
  });
});

describe('compiled code', () => {
  // Whether Node has loaded the module that strips types.
  const COMPILES = `console.log(process.moduleLoadList.some((name: string) => name.includes('amaro')));`;
  beforeEach(() => writeFile(join(copy, 'server/src/main.ts'), COMPILES));

  test('is cached, so that the first start after the installation compiles nothing', async () => {
    await mkdir(join(copy, 'server/src/cli'));
    await writeFile(join(copy, 'server/src/cli/start.ts'), 'export const start: number = 1;');
    expect(await end(launch([]))).toMatchObject({ code: 0, out: 'false\n' });

    await writeFile(join(copy, 'server/src/main.ts'), `${COMPILES} // changed`);
    expect(await end(launch([]))).toMatchObject({ code: 0, out: 'true\n' });
    expect(await end(launch([]))).toMatchObject({ code: 0, out: 'false\n' });
  });

  test('is compiled at every start if it cannot be cached', async () => {
    await mkdir(join(copy, 'node_modules'));
    await writeFile(join(copy, 'node_modules/.package-lock.json'), JSON.stringify({ packages: LOCKED }));
    await writeFile(join(copy, 'node_modules/.cache'), 'a file instead of the folder');
    expect(await end(launch([]))).toEqual({ code: 0, out: 'true\n', err: '' });
    expect(await end(launch([]))).toEqual({ code: 0, out: 'true\n', err: '' });
  });
});

describe('supervising a child', () => {
  /** The child logs to a file, because it may outlive its parent. */
  const CHILD = `
    import { appendFileSync } from 'node:fs';
    const log = (line) => appendFileSync(process.argv[2], line + '\\n');
    process.on('SIGTERM', () => { log('SIGTERM'); process.exit(3); });
    process.on('disconnect', () => { log('disconnect'); process.exit(0); });
    console.error('ready ' + process.pid);
    if (process.argv[3]) process.kill(process.pid, process.argv[3]);
    setInterval(() => {}, 1000);`;

  async function supervise(...args: string[]): Promise<{ child: ChildProcess; log: string }> {
    const script = join(copy, 'child.mjs');
    const log = join(copy, 'child.log');
    await writeFile(script, CHILD);
    await writeFile(log, '');
    const given = JSON.stringify([script, log, ...args]);
    await writeFile(
      join(copy, 'supervise.mjs'),
      `import { supervise } from './bin/runtime.mjs'; await supervise(process.execPath, ${given});`,
    );
    const child = spawn(process.execPath, [join(copy, 'supervise.mjs')], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return { child, log };
  }

  test('forwards a signal, and ends with the exit code of the child', async () => {
    const { child, log } = await supervise();
    const ended = once(child, 'close');
    await printed(child, 'ready');
    child.kill('SIGTERM');
    expect(await ended).toEqual([3, null]);
    expect(await readFile(log, 'utf8')).toBe('SIGTERM\n');
  });

  test('ends with the signal that ended the child', async () => {
    const { child } = await supervise('SIGKILL');
    expect(await once(child, 'close')).toEqual([null, 'SIGKILL']);
  });

  test('notifies the child when it is killed itself', async () => {
    const { child, log } = await supervise();
    // Both have the other end of this pipe, so it closes when the last of them has ended.
    const closed = once(child, 'close');
    await printed(child, 'ready');
    child.kill('SIGKILL');
    await closed;
    expect(await readFile(log, 'utf8')).toBe('disconnect\n');
  });
});
