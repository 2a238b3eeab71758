import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NODE_COMPILE_CACHE } from './compile-cache.ts';
import { createTestDatabase } from './database.ts';
import type { ProjectKeys } from './project-keys.ts';
import { projectWith, type TestProject } from './service.ts';
import { testSettings } from './test-settings.ts';

export interface MeasuredServer {
  readonly address: string;
  readonly projects: TestProject[];
  readonly pid: number;
  /** Resolves with the exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  /** The longest turn of its event loop while `work` ran, in milliseconds of CPU time. */
  longestTurn(work: () => Promise<unknown>): Promise<number>;
  /** The CPU time in milliseconds that it takes to copy the longest text that a request can have. */
  copyMs(): Promise<number>;
  stop(): Promise<void>;
}

/** Starts a server in a process of its own, with these arguments of Node, such as a small heap. */
export async function startMeasuredServer(
  execArgv: string[] = [],
  settings: Record<string, string> = {},
): Promise<MeasuredServer> {
  const database = await createTestDatabase();
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-measured-'));
  const child = fork(new URL('./measured-server.ts', import.meta.url), {
    execArgv,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      NODE_COMPILE_CACHE,
      ...testSettings(database.url, dataDir),
      ...settings,
    },
  });
  const ended = endOf(child);
  const [ready] = (await Promise.race([
    once(child, 'message'),
    ended.then((code) => Promise.reject(new Error(`the server ended with ${code}`))),
  ])) as [{ address: string; projects: ProjectKeys[] }];
  const send = async (message: string) => {
    child.send(message);
    // A test that was ended for its time may not have received its own response.
    for (;;) {
      const [response] = (await once(child, 'message')) as [{ to: string; ms?: number }];
      if (response.to === message) return response.ms ?? 0;
    }
  };
  return {
    address: ready.address,
    projects: ready.projects.map((keys) => projectWith(() => ready.address, keys)),
    pid: child.pid ?? 0,
    ended,
    async longestTurn(work) {
      await send('begin');
      await work();
      return send('end');
    },
    copyMs: () => send('copy'),
    async stop() {
      if (child.connected) child.send('stop');
      await ended;
      await database.drop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

async function endOf(child: ChildProcess): Promise<number | string> {
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
  return code ?? signal ?? 'nothing';
}
