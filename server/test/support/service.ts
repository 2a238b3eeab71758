import { createHmac } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Service, startService } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createProject } from '../../src/domain/setup/projects/create.ts';
import { issueToken } from '../../src/domain/setup/projects/tokens.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { createLogger } from '../../src/lib/log.ts';
import type { Timeouts } from '../../src/providers/shared/transport.ts';
import { createTestDatabase } from './database.ts';
import { noVendors } from './no-vendors.ts';

/** A project of the service under test, with the two ways to speak for it. */
export interface TestProject {
  id: string;
  apiKey: string;
  apiSecret: string;
  jwt: string;
  /** Calls the API as the project. */
  call: Caller;
  /** Calls the API as a user of the project. */
  as(externalId: string, claims?: Record<string, unknown>): Caller;
  /** A User JWT with these claims beside `api_key`. */
  userJwt(claims: Record<string, unknown>): string;
}

export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects, and fails where it is not there
  body: any;
}

/** Sends a request to the v2 API: `call('POST', '/broadcasts', body, headers)`. */
export type Caller = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
) => Promise<Answer>;

export interface TestService extends Service {
  project: TestProject;
  createProject(name: string): Promise<TestProject>;
  /** The same service again, on the same data: as after a restart. */
  restart(): Promise<void>;
}

export interface TestServiceOptions {
  /** Settings, as in the environment. */
  settings?: Record<string, string>;
  clock?: Clock;
  timeouts?: Partial<Timeouts>;
  /** How often is looked for what nobody has announced; a second where it is not given. */
  pollMs?: number;
  /** Where the lines of the log go; standard output, if not given. */
  logStream?: { write(line: string): void };
  logLevel?: string;
}

/**
 * A whole Belfry on a database of its own and a free port, with loopback opened for providers and the rate
 * limits off.
 */
export async function startTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const database = await createTestDatabase();
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-service-'));
  const config = readConfig({
    DATA_DIR: dataDir,
    DATABASE_URL: database.url,
    PORT: '0',
    EGRESS_ALLOW: '127.0.0.0/8,::1/128',
    RATE_LIMIT_READS: '0',
    RATE_LIMIT_WRITES: '0',
    RATE_LIMIT_IP: '0',
    ...noVendors,
    ...options.settings,
  });
  const start = () =>
    startService(config, {
      log: createLogger({
        level: options.logLevel ?? process.env.TEST_LOG_LEVEL ?? 'silent',
        ...(options.logStream ? { stream: options.logStream } : {}),
      }),
      checkReplies: true,
      ...(options.clock ? { clock: options.clock } : {}),
      ...(options.timeouts ? { timeouts: options.timeouts } : {}),
      ...(options.pollMs ? { pollMs: options.pollMs } : {}),
    });
  let service = await start();
  const newProject = (name: string) => testProject(() => service, name);
  return {
    get address() {
      return service.address;
    },
    get credentials() {
      return service.credentials;
    },
    get context() {
      return service.context;
    },
    project: await newProject('test'),
    createProject: newProject,
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

async function testProject(service: () => Service, name: string): Promise<TestProject> {
  const { context } = service();
  const project = await createProject(context, name);
  if (project === undefined) throw new Error(`there is a project ${name}`);
  const issued = await issueToken(context, { projectId: project.id, name: 'test' });
  if (issued === undefined) throw new Error('no token was issued');
  const { id, apiKey, apiSecret } = project;
  return projectWith(() => service().address, { id, apiKey, apiSecret, jwt: issued.token });
}

/** A project as it is known by its keys, of a service that may be at another address after a restart. */
export function projectWith(
  address: () => string,
  keys: Pick<TestProject, 'id' | 'apiKey' | 'apiSecret' | 'jwt'>,
): TestProject {
  const userJwt = (claims: Record<string, unknown>) =>
    signUserJwt({ api_key: keys.apiKey, ...claims }, keys.apiSecret);
  return {
    ...keys,
    call: caller(address, keys.jwt),
    as: (externalId, claims) => caller(address, userJwt({ user_external_id: externalId, ...claims })),
    userJwt,
  };
}

/** Signs a User JWT as an integrator's backend does, with nothing of ours. */
function signUserJwt(claims: Record<string, unknown>, apiSecret: string): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`;
  return `${signed}.${createHmac('sha256', apiSecret).update(signed).digest('base64url')}`;
}

/** Calls the v2 API of a service, which may be another one after a restart, with a token. */
export function caller(address: () => string, jwt: string): Caller {
  return async (method, path, body, headers = {}) => {
    const response = await fetch(`${address()}/v2${path}`, {
      method,
      headers: {
        authorization: `Bearer ${jwt}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? undefined : JSON.parse(text),
    };
  };
}

/** Asks until the answer is as wanted, and gives it; fails with what it saw last when that takes too long. */
export async function until<Value>(
  ask: () => Promise<Value> | Value,
  wanted: (value: Value) => boolean,
  { withinMs = 10_000, everyMs = 10 }: { withinMs?: number; everyMs?: number } = {},
): Promise<Value> {
  const deadline = Date.now() + withinMs;
  for (;;) {
    const value = await ask();
    if (wanted(value)) return value;
    if (Date.now() > deadline)
      throw new Error(`not within ${withinMs} ms; last seen: ${JSON.stringify(value)?.slice(0, 1000)}`);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

/** Waits until a broadcast is processed and all its deliveries have ended, and returns it. */
export async function processed(call: Caller, id: string, withinMs = 15_000): Promise<Answer['body']> {
  const answer = await until(
    () => call('GET', `/broadcasts/${id}`),
    ({ body }) => body?.status?.status === 'processed' && body.status.summary.pending === 0,
    { withinMs },
  );
  return answer.body;
}
