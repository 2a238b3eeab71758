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

/**
 * A copy of the launcher in a folder of its own, with a server of one line and an npm that writes down how it
 * is called.
 */
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
 * Does what npm does to a tree, as far as the launcher can see it. NPM_DOES: install (default), fail, hang.
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
  const wanted = Object.entries(packages).filter(([path, entry]) => path !== '' && !entry.os && !(entry.dev && args.includes('--omit=dev')));
  fs.rmSync('node_modules/needed/half');
  fs.writeFileSync('node_modules/.package-lock.json', JSON.stringify({ packages: Object.fromEntries(wanted) }));
}
`;

function launch(args: string[], environment: Record<string, string> = {}): ChildProcess {
  const PATH = `${join(copy, 'path')}${delimiter}${process.env.PATH}`;
  return spawn(process.execPath, [join(copy, 'bin/belfry.mjs'), ...args], {
    env: { ...process.env, PATH, ...environment },
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

/** Waits until the child has said `what` on standard error. */
async function said(child: ChildProcess, what: string): Promise<void> {
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
  test('happens once, without scripts and development tools, and leaves standard output to the command', async () => {
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

  test('is done by one of two launchers that start at once', async () => {
    const ended = await Promise.all([end(launch(['a'])), end(launch(['b']))]);
    expect(ended.map(({ code, out }) => [code, out])).toEqual([
      [0, '["a"]\n'],
      [0, '["b"]\n'],
    ]);
    expect(await npmCalls()).toHaveLength(1);
  });

  test('updates in place for another lock file, and keeps the development tools if they are installed', async () => {
    await mkdir(join(copy, 'node_modules'));
    await writeFile(join(copy, 'node_modules/.package-lock.json'), JSON.stringify({ packages: LOCKED }));
    expect((await end(launch([]))).code).toBe(0);
    expect(existsSync(join(copy, 'npm.log')), 'what was installed by hand is left alone').toBe(false);

    const packages = { ...LOCKED, 'node_modules/needed': { version: '1.0.1', integrity: 'sha512-three' } };
    await writeFile(join(copy, 'package-lock.json'), JSON.stringify({ packages }));
    expect((await end(launch([]))).code).toBe(0);
    expect(await npmCalls()).toEqual([expect.stringMatching(/^install --no-save --include=dev /)]);
  });

  test('that was killed in the middle is begun anew by the next start', async () => {
    const killed = launch([], { NPM_DOES: 'hang' });
    const ended = once(killed, 'close');
    await said(killed, 'hanging');
    const npm = Number(await readFile(join(copy, '.installing/npm.pid'), 'utf8'));
    killed.kill('SIGKILL');
    process.kill(npm, 'SIGKILL');
    await ended;
    // As if the last heartbeat had been long ago.
    await utimes(join(copy, '.installing'), new Date(0), new Date(0));

    expect(await end(launch([]))).toMatchObject({ code: 0, out: '[]\n' });
    expect(existsSync(join(copy, 'node_modules/needed/half'))).toBe(false);
    expect(existsSync(join(copy, '.installing'))).toBe(false);
  });

  test('that fails says what npm said and ends with 1', async () => {
    const { code, out, err } = await end(launch([], { NPM_DOES: 'fail' }));
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(/npm error: the registry is away\nbelfry: npm ci failed \(7\): .*\n$/);
  });

  test('is called off by SIGTERM, and leaves no lock behind', async () => {
    const child = launch([], { NPM_DOES: 'hang' });
    const ended = once(child, 'close');
    await said(child, 'hanging');
    child.kill('SIGTERM');
    expect(await ended).toEqual([1, null]);
    expect(existsSync(join(copy, '.installing'))).toBe(false);
  });
});

describe('what was compiled', () => {
  // Whether Node has loaded what strips the types, as the server sees it.
  const COMPILES = `console.log(process.moduleLoadList.some((name: string) => name.includes('amaro')));`;
  beforeEach(() => writeFile(join(copy, 'server/src/main.ts'), COMPILES));

  test('is kept: from the first start after the installation on, nothing has to be compiled', async () => {
    await mkdir(join(copy, 'server/src/cli'));
    await writeFile(join(copy, 'server/src/cli/start.ts'), 'export const start: number = 1;');
    expect(await end(launch([]))).toMatchObject({ code: 0, out: 'false\n' });

    await writeFile(join(copy, 'server/src/main.ts'), `${COMPILES} // changed`);
    expect(await end(launch([]))).toMatchObject({ code: 0, out: 'true\n' });
    expect(await end(launch([]))).toMatchObject({ code: 0, out: 'false\n' });
  });

  test('is compiled at every start where it cannot be kept', async () => {
    await mkdir(join(copy, 'node_modules'));
    await writeFile(join(copy, 'node_modules/.package-lock.json'), JSON.stringify({ packages: LOCKED }));
    await writeFile(join(copy, 'node_modules/.cache'), 'a file in the place of the folder');
    expect(await end(launch([]))).toEqual({ code: 0, out: 'true\n', err: '' });
    expect(await end(launch([]))).toEqual({ code: 0, out: 'true\n', err: '' });
  });
});

describe('supervising, where this process cannot become the server', () => {
  /** The child tells what happens to it in a file, because its parent may be gone by then. */
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
    await writeFile(
      join(copy, 'supervise.mjs'),
      `import { supervise } from './bin/runtime.mjs'; await supervise(process.execPath, ${JSON.stringify([script, log, ...args])});`,
    );
    const child = spawn(process.execPath, [join(copy, 'supervise.mjs')], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return { child, log };
  }

  test('passes a signal on, and ends with the exit code of the child', async () => {
    const { child, log } = await supervise();
    const ended = once(child, 'close');
    await said(child, 'ready');
    child.kill('SIGTERM');
    expect(await ended).toEqual([3, null]);
    expect(await readFile(log, 'utf8')).toBe('SIGTERM\n');
  });

  test('ends by the signal that ended the child', async () => {
    const { child } = await supervise('SIGKILL');
    expect(await once(child, 'close')).toEqual([null, 'SIGKILL']);
  });

  test('tells the child when it is killed itself', async () => {
    const { child, log } = await supervise();
    // Both hold the other end of this pipe: it closes when the last of them has ended.
    const closed = once(child, 'close');
    await said(child, 'ready');
    child.kill('SIGKILL');
    await closed;
    expect(await readFile(log, 'utf8')).toBe('disconnect\n');
  });
});
