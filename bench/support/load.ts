import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { runTask } from './task.ts';

/** Requests that a task sends. */
export interface Load {
  address: string;
  jwt: string;
  /** Recipients of each broadcast, chosen at random from `users` users. */
  recipients: number;
  users: number;
  /** The start of the users' ids. */
  prefix: string;
  /** With e-mail address and names beside the id. */
  described?: boolean;
  /** Sends by version 1 of the API, with its credentials. */
  v1?: { apiKey: string; apiSecret: string };
  connections: number;
  durationMs: number;
}

export interface LoadResult {
  requests: number;
  perSecond: number;
  errors: number;
  p50Ms: number;
  p99Ms: number;
}

const LUA = join(import.meta.dirname, 'broadcasts.lua');

/**
 * Whether `wrk` is installed. It takes a fifth of the CPU time of the sender in `processes`, which matters
 * because both share the cores.
 */
export const hasWrk = spawnSync('wrk', ['-v']).error === undefined;

/** Sends broadcasts as fast as the server responds. */
export async function sendLoad(load: Load): Promise<LoadResult> {
  return hasWrk ? withWrk(load) : runTask<LoadResult>('send.ts', load);
}

/** Sends `perSecond` broadcasts, however long the responses take. */
export function sendSteadily(load: Load & { perSecond: number }): Promise<LoadResult> {
  return runTask<LoadResult>('send.ts', load);
}

async function withWrk(load: Load): Promise<LoadResult> {
  const { address, connections, durationMs, jwt, recipients, users, prefix, described, v1 } = load;
  const child = spawn(
    'wrk',
    [
      '-t1',
      `-c${connections}`,
      `-d${Math.round(durationMs / 1000)}s`,
      '-s',
      LUA,
      `${address}${v1 === undefined ? '/v2/broadcasts' : '/notifications'}`,
      '--',
    ].concat(
      [jwt, String(recipients), String(users), prefix, described ? 'described' : 'plain'],
      v1 === undefined ? [] : [v1.apiKey, v1.apiSecret],
    ),
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  await new Promise((resolve) => child.once('close', resolve));
  const line = /^RESULT (.*)$/m.exec(output)?.[1];
  if (line === undefined) throw new Error(`wrk did not end well:\n${output}`);
  return JSON.parse(line) as LoadResult;
}
