import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConnectionSettings } from '../../src/db/client.ts';
import { startEmbedded } from '../../src/db/embedded.ts';
import { kill } from './belfry-process.ts';
import { withClient } from './with-client.ts';

// Debian's package `faketime` replaces the wall clock of a program, as if the clock of the system were set.
// The monotonic clock continues, as it does then.
const LIBRARY = ['x86_64', 'aarch64']
  .map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketime.so.1`)
  .find(existsSync);

/** Whether programs can have a clock of their own here. */
export const hasSystemClocks = LIBRARY !== undefined;

/** The clock of all programs that are started with its environment. */
export interface SystemClock {
  readonly env: Readonly<Record<string, string>>;
  /** Sets it to so many hours from the true time. */
  set(hours: number): Promise<void>;
}

/** Makes a clock with the true time, kept in a folder that all users can read. */
export async function systemClockIn(folder: string): Promise<SystemClock> {
  const file = join(folder, 'clock');
  const set = (hours: number) => writeFile(file, `${hours < 0 ? '' : '+'}${hours}h`);
  await chmod(folder, 0o755);
  await set(0);
  return {
    env: {
      LD_PRELOAD: LIBRARY ?? '',
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
    set,
  };
}

/** Starts the PostgreSQL of a data directory with this clock. */
export async function startPostgresWith(
  clock: SystemClock,
  dataDir: string,
): Promise<{ connection: ConnectionSettings; stop(): Promise<void> }> {
  // The embedded server starts without the variables of its parent, so it is started again as it was.
  const embedded = await startEmbedded({ dataDir, role: 'client', log: () => {} });
  const { connection, pid } = embedded;
  const ofProcess = (name: string) => readFileSync(`/proc/${pid}/${name}`, 'utf8');
  const [program = '', ...args] = ofProcess('cmdline').split('\0').slice(0, -1);
  const env = Object.fromEntries(
    ofProcess('environ')
      .split('\0')
      .slice(0, -1)
      .map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)]),
  );
  const [uid, gid] = ['Uid', 'Gid'].map((name) =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(ofProcess('status'))?.[1]),
  );
  await embedded.stop();
  const child = spawn(program, args, { uid, gid, env: { ...env, ...clock.env }, stdio: 'ignore' });
  const ended = once(child, 'exit');
  await untilConnected(connection, ended);
  return {
    connection,
    async stop() {
      if (child.exitCode === null) kill(child.pid ?? 0, 'SIGINT');
      await ended;
    },
  };
}

async function untilConnected(connection: ConnectionSettings, ended: Promise<unknown>): Promise<void> {
  let isEnded = false;
  void ended.then(() => {
    isEnded = true;
  });
  for (;;) {
    const connected = await withClient(connection, async () => true).catch(() => false);
    if (connected) return;
    if (isEnded) throw new Error('PostgreSQL did not start with another clock');
  }
}
