import { createSecretKey, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import type { FastifyInstance } from 'fastify';
import { readConfig } from '../../src/config.ts';
import type { Database } from '../../src/db/client.ts';
import { Hub } from '../../src/domain/after/realtime/hub.ts';
import { HitRecorder } from '../../src/domain/after/tracking/record.ts';
import type { RealtimeMessage } from '../../src/domain/ground/bus/messages.ts';
import { FeedFollower } from '../../src/domain/ground/events/follow.ts';
import { SharedWindows } from '../../src/domain/ground/requests/rate-windows.ts';
import { Acceptor } from '../../src/domain/line/accept/send-broadcast.ts';
import { TokenDiscarder } from '../../src/domain/people/tokens/discard-gone.ts';
import { LastSeen } from '../../src/domain/people/users/last-seen.ts';
import { createProject, type NewProject } from '../../src/domain/setup/projects/create.ts';
import { KeyUses } from '../../src/domain/setup/projects/key-uses.ts';
import { issueToken } from '../../src/domain/setup/projects/tokens.ts';
import type { HttpContext } from '../../src/http/context.ts';
import { createRateLimits } from '../../src/http/rate-limit.ts';
import { EventStreams } from '../../src/http/realtime/event-streams.ts';
import { Streams } from '../../src/http/realtime/stream.ts';
import { createServer, type ServerOptions } from '../../src/http/server.ts';
import { createLogger } from '../../src/lib/log.ts';
import { open } from '../../src/open.ts';
import { createTestDatabase } from './database.ts';
import { hs256 } from './jwt.ts';
import { noVendors } from './no-vendors.ts';

/** The HTTP part alone, over a real database and a real socket: no workers, no realtime. */
export interface TestServer {
  base: string;
  server: FastifyInstance;
  context: HttpContext;
  db: Database;
  clock: { now(): number; advance(ms: number): void /** It goes on by `advance` alone. */; hold(): void };
  published: RealtimeMessage[];
  logged: string[];
  project: NewProject & { jwt: string };
  userJwt(claims: Record<string, unknown>): string;
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  close(): Promise<void>;
}

export interface TestServerOptions extends ServerOptions {
  settings?: Record<string, string>;
  logLevel?: string;
}

export interface CallOptions {
  token?: string;
  body?: unknown;
  /** Sent as it is, instead of `body`. */
  raw?: string | Buffer;
  headers?: Record<string, string>;
}

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  json: unknown;
  /** The messages of an error. */
  messages: string[];
  codes: string[];
}

export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const database = await createTestDatabase();
  const published: RealtimeMessage[] = [];
  const logged: string[] = [];
  let offset = 0;
  let heldAt: number | undefined;
  const clock = {
    now: () => (heldAt ?? Date.now()) + offset,
    hold: () => {
      heldAt = Date.now();
    },
    advance: (ms: number) => {
      offset += ms;
    },
  };
  const config = readConfig({
    RATE_LIMIT_READS: '0',
    RATE_LIMIT_WRITES: '0',
    RATE_LIMIT_IP: '0',
    SECRET_KEY: randomBytes(32).toString('hex'),
    DATABASE_URL: database.url,
    DATA_DIR: tmpdir(), // nothing is kept there with a key and a database of one's own
    ...noVendors,
    ...options.settings,
  });
  const log = createLogger({
    level: options.logLevel ?? 'error',
    stream: { write: (line) => void logged.push(line) },
  });
  const opened = await open(config, { role: 'client', log, clock });
  const { db } = opened;
  opened.bus.subscribe((message) => published.push(message));
  const hub = new Hub(opened);
  const follower = new FeedFollower(opened);
  const context: HttpContext = {
    ...opened,
    lastSeen: new LastSeen(opened),
    keyUses: new KeyUses(opened),
    // Nobody works here: what is accepted waits.
    acceptor: new Acceptor(opened, { reserve: () => undefined, wake: () => {} }),
    streams: new Streams({ ...opened, hub, clock }),
    eventStreams: new EventStreams({ ...opened, clock, follower }),
    discarder: new TokenDiscarder(opened),
    hits: new HitRecorder(opened),
  };
  const { routes, timeouts } = options;
  const windows = new SharedWindows(opened);
  const server = await createServer(context, {
    checkReplies: true,
    limits: createRateLimits({ config, windows }),
    ...(routes ? { routes } : {}),
    ...(timeouts ? { timeouts } : {}),
  });
  await server.listen({ host: '127.0.0.1', port: 0 });
  const { port } = server.server.address() as AddressInfo;
  const project = await newProject(context, 'default');
  const address = `http://127.0.0.1:${port}`;
  return {
    base: address,
    server,
    context,
    db,
    clock,
    published,
    logged,
    project,
    userJwt: (claims) =>
      hs256({ api_key: project.apiKey, ...claims }, createSecretKey(Buffer.from(project.apiSecret))),
    call: (method, path, how) => call(address, method, path, how),
    async close() {
      // As the service does: a request that is only half said would be waited for until it times out.
      const impatience = setTimeout(() => server.server.closeAllConnections(), 5_000);
      await server.close();
      clearTimeout(impatience);
      await context.streams.close();
      hub.close();
      follower.close();
      await context.lastSeen.close();
      await context.keyUses.close();
      await context.hits.close();
      await windows.close();
      await opened.close();
      await database.drop();
    },
  };
}

/** Another project, with a token for it. */
export async function newProject(context: HttpContext, name: string): Promise<NewProject & { jwt: string }> {
  const project = await createProject(context, name);
  const issued = project && (await issueToken(context, { projectId: project.id, name: 'test' }));
  if (project === undefined || issued === undefined) throw new Error(`no project ${name}`);
  return { ...project, jwt: issued.token };
}

async function call(base: string, method: string, path: string, options: CallOptions = {}): Promise<Answer> {
  const { token, body, raw, headers = {} } = options;
  const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const response = await fetch(`${base}${path}`, {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(sent === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(sent === undefined ? {} : { body: typeof sent === 'string' ? sent : new Uint8Array(sent) }),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') === true && text !== '';
  const json: unknown = isJson ? JSON.parse(text) : undefined;
  const errors = (json as { errors?: { code: string; message: string }[] } | undefined)?.errors ?? [];
  return {
    status: response.status,
    headers: response.headers,
    text,
    json,
    messages: errors.map(({ message }) => message),
    codes: errors.map(({ code }) => code),
  };
}

/** Sends bytes as they are and answers all that comes back until the other side ends. */
export async function rawExchange(base: string, request: string): Promise<string> {
  const { hostname, port } = new URL(base);
  const socket = connect(Number(port), hostname);
  socket.end(request);
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  await once(socket, 'close');
  return text;
}
