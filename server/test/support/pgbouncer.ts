import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { ConnectionSettings } from '../../src/db/client.ts';
import { PATIENCE_MS } from './patience.ts';

/** pgbouncer in front of a server, for all of its databases. */
export interface Pgbouncer {
  /** For any database. */
  readonly connection: ConnectionSettings;
  readonly pid: number;
  /** Kills it and starts it again. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

// Older releases lose prepared statements in transaction mode.
const OLDEST = [1, 21];

/** Whether this machine has a pgbouncer that works. */
export const hasPgbouncer = isInstalled();

function isInstalled(): boolean {
  const { stdout, error } = spawnSync('pgbouncer', ['--version'], { encoding: 'utf8' });
  if (error !== undefined) return false;
  const [major = 0, minor = 0] = /(\d+)\.(\d+)/.exec(stdout)?.slice(1).map(Number) ?? [];
  return major > (OLDEST[0] ?? 0) || (major === OLDEST[0] && minor >= (OLDEST[1] ?? 0));
}

const GUIDE = new URL('../../../docs/guides/operations.md', import.meta.url);

/** The pgbouncer.ini of the guide. */
function iniOfGuide(): string {
  const ini = /^```ini\n(.*?)^```$/ms.exec(readFileSync(GUIDE, 'utf8'))?.[1];
  if (ini === undefined) throw new Error('the guide has no pgbouncer.ini');
  return ini;
}

/**
 * Starts pgbouncer with the settings of the guide. Only the addresses and the users are replaced, and what
 * `changes` names, such as `{ pool_mode: 'session' }`.
 */
export async function startPgbouncer(
  { host, port, user, password }: ConnectionSettings,
  changes: Readonly<Record<string, string>> = {},
): Promise<Pgbouncer> {
  const folder = await mkdtemp(join(tmpdir(), 'belfry-pgbouncer-'));
  await chmod(folder, 0o777); // pgbouncer does not run as root
  const secret = password === undefined ? '' : `password=${password}`;
  let text = iniOfGuide().replace(
    'belfry = host=10.0.0.5',
    `* = host=${host} port=${port} user=${user} ${secret}`,
  );
  const replaced = { listen_addr: '', unix_socket_dir: folder, auth_type: 'any', auth_file: '', ...changes };
  for (const [name, value] of Object.entries(replaced))
    text = `${text.replace(new RegExp(`^${name} = .*\\n`, 'm'), '')}${name} = ${value}\n`;
  const ini = join(folder, 'pgbouncer.ini');
  await writeFile(ini, text);
  let child = await start(folder, ini);
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  return {
    connection: { host: folder, port: PORT, user: 'belfry' },
    get pid() {
      return child.pid ?? 0;
    },
    async restart() {
      await stop();
      await rm(socketIn(folder), { force: true });
      child = await start(folder, ini);
    },
    async stop() {
      await stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const PORT = 6432;

const socketIn = (folder: string) => join(folder, `.s.PGSQL.${PORT}`);

/** Starts the process, and waits until its console accepts connections. */
async function start(folder: string, ini: string): Promise<ChildProcess> {
  // language-ignore: the name of the account
  const account = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn('pgbouncer', ['-q', ...account, ini], { stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (text) => {
    errors += text;
  });
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const client = new pg.Client({ host: folder, port: PORT, user: 'pgbouncer', database: 'pgbouncer' });
    const reached = await client.connect().then(
      () => true,
      () => false,
    );
    await client.end().catch(() => {});
    if (reached) return child;
    if (child.exitCode !== null || Date.now() > deadline)
      throw new Error(`pgbouncer did not start: ${errors}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
