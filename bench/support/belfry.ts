import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type ConnectionSettings, type Database, openDatabase } from '../../server/src/db/client.ts';
import { startEmbedded } from '../../server/src/db/embedded.ts';
import { waitMs } from '../../server/src/lib/wait.ts';

/** A server as `npm start` runs it, in a process of its own, and a connection to its database. */
export interface Belfry {
  readonly address: string;
  readonly pid: number;
  readonly dataDir: string;
  readonly projectId: string;
  readonly projectJwt: string;
  readonly apiKey: string;
  readonly apiSecret: string;
  readonly db: Database;
  /** A User JWT of the project. */
  userJwt(externalId: string): string;
  call(
    method: string,
    path: string,
    body?: unknown,
    jwt?: string,
  ): Promise<{ status: number; body: unknown }>;
  stop(): Promise<void>;
}

export interface BelfryOptions {
  dataDir: string;
  /** More arguments for Node, such as `--cpu-prof`. */
  nodeArguments?: readonly string[];
  /** Settings that override those of the benchmark. */
  settings?: Readonly<Record<string, string>>;
  /** The program to run instead of `npm start`'s, with the same settings. */
  program?: string;
  /** Called with each line of its output. */
  onLine?: (line: string) => void;
}

const LAUNCHER = join(import.meta.dirname, '..', '..', 'bin', 'belfry.mjs');
const START_TIMEOUT_MS = 60_000;

function programOf(program: string | undefined): string[] {
  return program === undefined ? [LAUNCHER, 'start'] : [program];
}

/** Starts a server on `dataDir` without rate limits. The caller stops it. */
export async function startBelfry(options: BelfryOptions): Promise<Belfry> {
  const { dataDir, nodeArguments = [], settings = {}, program, onLine } = options;
  const child = spawn(process.execPath, [...nodeArguments, ...programOf(program)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...SETTINGS, ...settings, DATA_DIR: dataDir },
  });
  if (onLine !== undefined) createInterface({ input: child.stdout }).on('line', onLine);
  const address = await addressOf(child);
  const credentials = JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8')) as Credentials;
  const postgres = await startEmbedded({ dataDir, role: 'client', log: () => {} });
  const db = openDatabase(postgres.connection, { size: 4, name: 'bench' });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  return {
    address,
    pid: child.pid ?? 0,
    dataDir,
    projectId: credentials.project_id,
    projectJwt: credentials.project_jwt,
    apiKey: credentials.api_key,
    apiSecret: credentials.api_secret,
    db,
    userJwt: (externalId) => userJwt(credentials, externalId),
    call: (method, path, body, jwt = credentials.project_jwt) =>
      call(`${address}/v2${path}`, method, jwt, body),
    async stop() {
      await db.close();
      await postgres.stop();
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** The DATABASE_URL of an embedded database. */
export function databaseUrl({ host, port, user, password = '', database }: ConnectionSettings): string {
  const at = host?.startsWith('/') ? `localhost:${port}` : `${host}:${port}`;
  const socket = host?.startsWith('/') ? `?host=${encodeURIComponent(host)}` : '';
  return `postgres://${user}:${password}@${at}/${database}${socket}`;
}

/** Starts another server on the database of a running one. */
export async function startSecondNode(
  {
    nodeArguments = [],
    settings = {},
    program,
  }: Pick<BelfryOptions, 'nodeArguments' | 'settings' | 'program'>,
  { dataDir }: Pick<Belfry, 'dataDir'>,
): Promise<{ address: string; pid: number; stop(): Promise<void> }> {
  const postgres = await startEmbedded({ dataDir, role: 'client', log: () => {} });
  const ownDir = mkdtempSync(join(tmpdir(), 'belfry-bench-second-'));
  const child = spawn(process.execPath, [...nodeArguments, ...programOf(program)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      ...SETTINGS,
      ...settings,
      DATA_DIR: ownDir,
      DATABASE_URL: databaseUrl(postgres.connection),
      SECRET_KEY: readFileSync(join(dataDir, 'secret.key'), 'utf8').trim(),
    },
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  return {
    address: await addressOf(child),
    pid: child.pid ?? 0,
    async stop() {
      child.kill('SIGTERM');
      await ended;
      await postgres.stop();
      rmSync(ownDir, { recursive: true, force: true });
    },
  };
}

/** Polls until the condition is true; throws after a deadline. */
export async function until(
  what: string,
  condition: () => Promise<boolean>,
  { withinMs = 300_000, everyMs = 5 }: { withinMs?: number; everyMs?: number } = {},
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await waitMs(everyMs);
  }
}

interface Credentials {
  project_id: string;
  project_jwt: string;
  api_key: string;
  api_secret: string;
}

const SETTINGS = {
  HOST: '127.0.0.1',
  PORT: '0',
  RATE_LIMIT_READS: '0',
  RATE_LIMIT_WRITES: '0',
  RATE_LIMIT_V1_READS: '0',
  RATE_LIMIT_V1_WRITES: '0',
  RATE_LIMIT_IP: '0',
  EGRESS_ALLOW: '127.0.0.0/8',
  LOG_LEVEL: 'warn',
};

async function addressOf(child: ChildProcess): Promise<string> {
  let output = '';
  let address: string | undefined;
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const timer = setTimeout(() => reject(new Error(`Belfry did not start:\n${output}`)), START_TIMEOUT_MS);
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    if (address === undefined) {
      output += text;
      address = /ready at ([^\s"]+)/.exec(output)?.[1];
      if (address !== undefined) resolve(address);
    }
    if (/"level":"(warn|error|fatal)"/.test(text)) console.error(text.trim());
  });
  child.once('exit', (code) => reject(new Error(`Belfry ended with ${code}:\n${output}`)));
  process.once('exit', () => child.kill('SIGTERM'));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}

function userJwt(credentials: Credentials, externalId: string): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const claims = { api_key: credentials.api_key, user_external_id: externalId };
  const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`;
  return `${signed}.${createHmac('sha256', credentials.api_secret).update(signed).digest('base64url')}`;
}

async function call(
  url: string,
  method: string,
  jwt: string,
  body: unknown,
): Promise<{ status: number; body: unknown }> {
  const response = await fetch(url, {
    method,
    headers: {
      authorization: `Bearer ${jwt}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
}
