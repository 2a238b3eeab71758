import { createHmac, createSecretKey } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Service, startService } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { DEFAULT_CELL } from '../../src/domain/setup/cells/cells.ts';
import type { App } from '../../src/http/route.ts';
import type { ServerOptions } from '../../src/http/server.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { createLogger } from '../../src/lib/log.ts';
import type { Timeouts } from '../../src/providers/shared/transport.ts';
import { addCells, contextIn, createDatabaseForCells, createProjectKeysIn } from './cells.ts';
import { hs256 } from './jwt.ts';
import { PATIENCE_MS } from './patience.ts';
import type { ProjectKeys } from './project-keys.ts';
import { rowsOf } from './rows.ts';
import { testSettings } from './test-settings.ts';

/** A project of the service under test. */
export interface TestProject extends ProjectKeys {
  /** Calls the API as the project. */
  call: Caller;
  /** Calls the API as a user of the project. */
  as(externalId: string, claims?: Record<string, unknown>): Caller;
  /** Calls v1 with the API key and secret. */
  v1: Caller;
  /** Calls v1 as a user of the project, with its HMAC. */
  v1As(externalId: string): Caller;
  /** A User JWT with these claims and the `api_key`. */
  userJwt(claims: Record<string, unknown>): string;
}

export interface ApiResponse {
  status: number;
  headers: Headers;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects, and fails if it is missing
  body: any;
  /** The messages of the errors in the body. */
  messages: string[];
  /** The codes of the errors in the body. */
  codes: string[];
}

/** Sends a request to the API: `call('POST', '/broadcasts', body, headers)`. A string is sent as it is. */
export type Caller = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
) => Promise<ApiResponse>;

export interface RequestOptions {
  token?: string;
  body?: unknown;
  /** Sent as it is, instead of `body`. */
  raw?: string | Buffer;
  headers?: Record<string, string>;
  /** After this time without a response, it throws. Default: no limit. */
  withinMs?: number | undefined;
}

export interface TestService extends Omit<Service, 'takeOver'> {
  project: TestProject;
  /** The HTTP server and the context of its routes. */
  http: App;
  createProject(name: string): Promise<TestProject>;
  /** The lines of the log. */
  logged: string[];
  /** Sends a request to any path, with any token or none. */
  request(method: string, path: string, options?: RequestOptions): Promise<ApiResponse>;
  /** Executes a statement in the cell of the first project, and returns its rows. */
  rows<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Stops the service and starts it on the same data. */
  restart(): Promise<void>;
}

export interface TestServiceOptions {
  /** Settings, as in the environment. */
  settings?: Record<string, string>;
  clock?: Clock;
  timeouts?: Partial<Timeouts>;
  /** How often the worker polls for jobs; a second by default. */
  pollMs?: number;
  logLevel?: string;
  /** More routes, and other timeouts of the HTTP server. */
  http?: Pick<ServerOptions, 'docsCache' | 'routes' | 'timeouts'>;
}

/**
 * Starts Belfry on a database of its own and a free port. Providers can reach loopback, and rate limits are
 * off. With TEST_CELLS=3, it has three cells: the first project lives in the second one, the others in turn,
 * or in the second one too with TEST_SAME_CELL=1. `context` is that of the first project.
 */
export async function startTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const cellsToAdd = Number(process.env.TEST_CELLS ?? 1) - 1;
  const database = await createDatabaseForCells(cellsToAdd);
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-service-'));
  const config = readConfig({
    ...testSettings(database.url, dataDir),
    ...(options.settings?.DATABASE_URL === undefined ? database.settings : {}),
    EGRESS_ALLOW: '127.0.0.0/8,::1/128',
    ...options.settings,
  });
  const printedLevel = process.env.TEST_LOG_LEVEL;
  const logged: string[] = [];
  const write = (line: string) => {
    logged.push(line);
    if (printedLevel !== undefined) process.stdout.write(line);
  };
  let http: App | undefined;
  const routes = (app: App) => {
    http = app;
    options.http?.routes?.(app);
  };
  const start = () =>
    startService(config, {
      log: createLogger({ level: options.logLevel ?? printedLevel ?? 'error', stream: { write } }),
      checkReplies: true,
      http: { ...options.http, routes },
      ...(options.clock ? { clock: options.clock } : {}),
      ...(options.timeouts ? { timeouts: options.timeouts } : {}),
      ...(options.pollMs ? { pollMs: options.pollMs } : {}),
    });
  let service = await start();
  const address = () => service.address;
  const cells = await addCells(service, cellsToAdd);
  let created = 0;
  const newProject = async (name: string) => {
    const place = process.env.TEST_SAME_CELL === '1' ? 0 : created++ % cells.length;
    const cell = cells[place] ?? DEFAULT_CELL;
    return projectWith(address, await createProjectKeysIn(service, cell, name));
  };
  const contextOfFirst = () => contextIn(service, cells[0] ?? DEFAULT_CELL);
  return {
    get address() {
      return service.address;
    },
    get credentials() {
      return service.credentials;
    },
    get context() {
      return contextOfFirst();
    },
    get http() {
      if (http === undefined) throw new Error('the service has no HTTP server');
      return http;
    },
    contexts: () => service.contexts(),
    project: await newProject('test'),
    createProject: newProject,
    logged,
    request: (...request) => send(service.address, ...request),
    rows: (text, values) => rowsOf(contextOfFirst().db, text, values),
    async restart() {
      await service.stop();
      service = await start();
    },
    async stop() {
      await service.stop();
      await database.drop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** A project with these keys, of a service whose address may change when it restarts. */
export function projectWith(address: () => string, keys: ProjectKeys): TestProject {
  const secret = createSecretKey(Buffer.from(keys.apiSecret));
  const userJwt = (claims: Record<string, unknown>) => hs256({ api_key: keys.apiKey, ...claims }, secret);
  const v1 =
    (credentials: Record<string, string>): Caller =>
    (method, path, body, headers = {}) => {
      const content = typeof body === 'string' ? { raw: body } : { body };
      return send(address(), method, path, {
        headers: { 'x-service-api-key': keys.apiKey, ...credentials, ...headers },
        ...content,
      });
    };
  return {
    ...keys,
    v1: v1({ 'x-service-api-secret': keys.apiSecret }),
    v1As: (externalId) =>
      v1({
        'x-service-user-external-id': externalId,
        'x-service-user-hmac': createHmac('sha256', secret).update(externalId).digest('base64'),
      }),
    call: caller(address, keys.jwt),
    as: (externalId, claims) => caller(address, userJwt({ user_external_id: externalId, ...claims })),
    userJwt,
  };
}

/** Calls the v2 API of a service with a token. */
export function caller(
  address: () => string,
  token: string,
  { withinMs }: { withinMs?: number } = {},
): Caller {
  return (method, path, body, headers = {}) => {
    const content = typeof body === 'string' ? { raw: body } : { body };
    return send(address(), method, `/v2${path}`, { token, headers, withinMs, ...content });
  };
}

async function send(
  address: string,
  method: string,
  path: string,
  { token, body, raw, headers = {}, withinMs }: RequestOptions = {},
): Promise<ApiResponse> {
  const content = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const response = await fetch(`${address}${path}`, {
    method,
    signal: withinMs === undefined ? null : AbortSignal.timeout(withinMs),
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(content === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(content === undefined
      ? {}
      : { body: typeof content === 'string' ? content : new Uint8Array(content) }),
  });
  const text = await response.text();
  const isJson = /[/+]json\b/.test(response.headers.get('content-type') ?? '') && text !== '';
  const parsed = isJson ? JSON.parse(text) : undefined;
  const errors: { code: string; message: string }[] = parsed?.errors ?? [];
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: parsed,
    messages: errors.map(({ message }) => message),
    codes: errors.map(({ code }) => code),
  };
}

/** Polls until the value is as wanted, and returns it. After `withinMs`, it throws with the last value. */
export async function until<Value>(
  read: () => Promise<Value> | Value,
  wanted: (value: Value) => boolean,
  { withinMs = PATIENCE_MS, everyMs = 10 }: { withinMs?: number; everyMs?: number } = {},
): Promise<Value> {
  const deadline = Date.now() + withinMs;
  for (;;) {
    const value = await read();
    if (wanted(value)) return value;
    if (Date.now() > deadline)
      throw new Error(`not within ${withinMs} ms; last seen: ${JSON.stringify(value)?.slice(0, 1000)}`);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

/** Waits until a broadcast is processed and all its deliveries have ended, and returns it. */
export async function processed(call: Caller, id: string): Promise<ApiResponse['body']> {
  const { body } = await until(
    () => call('GET', `/broadcasts/${id}`),
    (response) => response.body?.status?.status === 'processed' && response.body.status.summary.pending === 0,
  );
  return body;
}
