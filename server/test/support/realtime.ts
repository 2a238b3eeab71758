import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { EventSource } from 'eventsource';
import Fastify from 'fastify';
import { WebSocket } from 'ws';
import { type Database, openDatabase, type Queryable, sql } from '../../src/db/client.ts';
import { Hub } from '../../src/domain/after/realtime/hub.ts';
import { createBus, type NodeBus } from '../../src/domain/ground/bus/bus.ts';
import type { NotificationsNew } from '../../src/domain/ground/bus/messages.ts';
import type { NatsOptions } from '../../src/domain/ground/bus/nats.ts';
import { BroadcastContents } from '../../src/domain/line/notifications/contents.ts';
import { findInboxToken } from '../../src/domain/people/tokens/find-by-value.ts';
import { saveToken } from '../../src/domain/people/tokens/save.ts';
import { createCategoryCache } from '../../src/domain/setup/categories/cache.ts';
import { createIntegrationCache } from '../../src/domain/setup/integrations/cache.ts';
import { ProjectCache } from '../../src/domain/setup/projects/cache.ts';
import { createProject, type NewProject } from '../../src/domain/setup/projects/create.ts';
import { createSocketAuthenticator } from '../../src/http/realtime/authenticate-socket.ts';
import { Rounds } from '../../src/http/realtime/pending.ts';
import { STREAM_PATH, serveSockets } from '../../src/http/realtime/socket.ts';
import { Streams } from '../../src/http/realtime/stream.ts';
import { serveStreamSockets } from '../../src/http/realtime/stream-sockets.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { packJson } from '../../src/lib/packed-json.ts';
import { createSealer, type Sealer } from '../../src/lib/seal.ts';
import { tokenCollection } from '../../src/providers/index.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';

/** A database with a project, and nodes that serve only realtime, over real sockets. */
export interface TestRealtime {
  db: Database;
  database: TestDatabase;
  sealer: Sealer;
  project: NewProject;
  startNode(options?: { port?: number; shared?: boolean; nats?: NatsOptions }): Promise<TestNode>;
  close(): Promise<void>;
}

export interface TestNode {
  port: number;
  bus: NodeBus;
  hub: Hub;
  /** Sends the heartbeats of a full period. */
  beat(): void;
  close(): Promise<void>;
}

const snapshotOf = (listed: string | undefined) =>
  listed === undefined
    ? undefined
    : { listed: Number(listed), preferencesUrl: () => 'https://notify.example/preferences/link' };

export async function startTestRealtime(): Promise<TestRealtime> {
  const database = await createTestDatabase();
  const db = openDatabase(database.connection, { size: 10, name: 'test' });
  const sealer = createSealer([randomBytes(32)]);
  const project = await createProject({ db, sealer }, 'realtime');
  if (project === undefined) throw new Error('the database is not empty');
  const log = createLogger({ level: process.env.TEST_LOG_LEVEL ?? 'silent' });
  const nodes: TestNode[] = [];
  return {
    db,
    database,
    sealer,
    project,
    async startNode({ port = 0, shared = true, nats } = {}) {
      const bus = createBus({ db, log, nodeId: newId(), shared, nats });
      await bus.listening();
      const clock = systemClock;
      const projects = new ProjectCache({ db, sealer, clock, bus });
      const categories = createCategoryCache({ db, bus });
      const integrations = createIntegrationCache({ db, sealer, log, bus });
      const contents = new BroadcastContents({ db });
      const hub = new Hub({ db, bus, clock, log, sealer, contents, categories, integrations });
      const ticks: (() => void)[] = [];
      const every = (_ms: number, tick: () => void) => {
        ticks.push(tick);
        return () => {};
      };
      const streams = new Streams({ hub, clock, projects, every });
      const current = async () => {
        const found = await projects.byId(project.id);
        if (found === undefined) throw new Error('the project is gone');
        return { project: found, key: found.apiSecrets[0] };
      };
      const server = Fastify({ forceCloseConnections: 'idle' });
      // The tests of the whole service cover the authentication of the route (http/route.ts).
      type Query = { user: string; expires?: string; snapshot?: string };
      server.get<{ Querystring: Query }>('/stream', async (request, reply) => {
        const { user: userId, expires, snapshot } = request.query;
        await streams.open(reply, {
          projectId: project.id,
          userId,
          credential: { expiresAtMs: Number(expires ?? Number.POSITIVE_INFINITY), ...(await current()) },
          snapshot: snapshotOf(snapshot),
          lastEventId: request.headers['last-event-id'],
        });
        return reply;
      });
      const sockets = serveSockets({
        server: server.server,
        hub,
        authenticate: createSocketAuthenticator({ db, bus, sealer, projects, lastSeen: { note: () => {} } }),
        log,
        every,
      });
      const streamSockets = serveStreamSockets({
        ...{ server: server.server, hub, projects, clock, log, every },
        // The token is the id of the user, and when it expires.
        async authenticate(token) {
          const [userId = '', expires = Number.POSITIVE_INFINITY] = token.split('.');
          const { project: found, key } = await current();
          const credential = { expiresAtMs: Number(expires), key };
          return { kind: 'user', project: found, userId, credential };
        },
        snapshotFor: (_, query) => snapshotOf(query.get('snapshot') ?? undefined),
      });
      await server.listen({ host: '127.0.0.1', port });
      const node: TestNode = {
        port: (server.server.address() as AddressInfo).port,
        bus,
        hub,
        beat() {
          for (let slice = 0; slice < Rounds.SLICES; slice += 1) for (const tick of ticks) tick();
        },
        async close() {
          if (!nodes.includes(node)) return;
          nodes.splice(nodes.indexOf(node), 1);
          await Promise.all([sockets.close(), streamSockets.close(), streams.close()]);
          await server.close();
          hub.close();
          projects.close();
          categories.close();
          integrations.close();
          await bus.close();
        },
      };
      nodes.push(node);
      return node;
    },
    async close() {
      await Promise.all(nodes.slice().map((node) => node.close()));
      await db.close();
      await database.drop();
    },
  };
}

/** Saves a new inbox token of a user. Returns its value and id. */
export async function saveInboxToken(
  { db, sealer, project }: TestRealtime,
  userId: string,
  connectionId: string | null = null,
): Promise<{ id: string; token: string }> {
  const token = randomBytes(32).toString('hex');
  const bus = { publish: () => {}, subscribe: () => () => {} }; // no other node knows the token
  const owner = { projectId: project.id, userId };
  await saveToken({ db, bus, sealer }, tokenCollection('inbox'), owner, {
    token,
    connection_id: connectionId,
  });
  const found = await findInboxToken({ db, sealer }, project.id, token);
  if (found === undefined) throw new Error('the token was not saved');
  return { id: found.tokenId, token };
}

export interface NewBroadcast {
  userIds: string[];
  title?: string;
  content?: string | null;
  inApp?: Record<string, unknown>;
}

/** Writes a broadcast and its notifications, as the fan-out does. Returns the message that it publishes. */
export async function insertBroadcast(
  db: Queryable,
  projectId: string,
  { userIds, title = 'Hello', content = null, inApp }: NewBroadcast,
): Promise<NotificationsNew> {
  const id = newId();
  const message = { title, content, action_url: null, custom_attributes: null };
  const [row] = await db.query<{ sent_at: Date }>(
    sql(
      'test_broadcast',
      `with stamp as (select clock_timestamp() as sent_at),
      broadcast as (
        insert into broadcasts (id, project_id, category, topic, message, in_app)
        values ($1, $2, 'news', null, $3, $4)
      ),
      users as (insert into broadcast_users (broadcast_id, page, user_ids) values ($1, 0, $5::uuid[])),
      sent as (
        insert into notifications (user_id, id, broadcast_id, sent_at)
        select user_id, id, $1, sent_at
        from unnest($5::uuid[], $6::uuid[]) as n (user_id, id), stamp
      )
      select sent_at from stamp`,
    ),
    [
      id,
      projectId,
      packJson(JSON.stringify(message)),
      inApp ? packJson(JSON.stringify(inApp)) : null,
      userIds,
      userIds.map((userId) => notificationId(id, userId)),
    ],
  );
  return { type: 'new', projectId, broadcastId: id, userIds, sentAtMs: row?.sent_at.getTime() ?? 0 };
}

/** A frame that a client received. */
export interface ReceivedFrame {
  id: string;
  name: string;
  timestamp: string;
  data: { id: string; client_id?: string; notification?: Record<string, unknown> };
}

/** A client of the WebSocket protocol, with the frames that it received. */
export interface SocketClient {
  socket: WebSocket;
  frames: ReceivedFrame[];
  closed: Promise<{ code: number; reason: string }>;
}

export function socketUrl(
  port: number,
  { project }: TestRealtime,
  parameters: Record<string, string>,
): string {
  return `ws://127.0.0.1:${port}/?${new URLSearchParams({ api_key: project.apiKey, ...parameters })}`;
}

/** Opens a socket and waits until it is open. Rejects with the HTTP status if the server refuses it. */
export async function openSocket(url: string): Promise<SocketClient> {
  const socket = new WebSocket(url);
  const frames: ReceivedFrame[] = [];
  socket.on('message', (data) => frames.push(JSON.parse(String(data))));
  return { socket, frames, ...(await opened(socket)) };
}

/** Waits until a socket is open. Returns its end in an object, because a promise would be awaited. */
async function opened(socket: WebSocket): Promise<{ closed: SocketClient['closed'] }> {
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: String(reason) }));
  });
  const refused = new Promise<never>((_resolve, reject) => {
    socket.on('unexpected-response', (_request, response) => reject(new Refused(response.statusCode ?? 0)));
    socket.on('error', reject);
  });
  refused.catch(() => {});
  await Promise.race([once(socket, 'open'), refused]);
  return { closed };
}

export class Refused extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`refused with ${status}`);
    this.status = status;
  }
}

const NAMES = [
  'new',
  'read',
  'unread',
  'seen',
  'archived',
  'unarchived',
  'delete',
  'snoozed',
  'read/all',
  'seen/all',
  'archive/all',
].map((name) => `notifications/${name}`);

/** A client of a stream, with the frames that it received and the id to resume from. */
export interface StreamClient {
  source: { close(): void };
  frames: ReceivedFrame[];
  lastEventId(): string;
  resyncs: number;
  /** The configs of the inbox. */
  themes: unknown[];
  /** The state of the inbox with which it began. */
  state: Snapshot | undefined;
}

export interface Snapshot {
  now?: string;
  counts?: { unread: number; unseen: number };
  config?: unknown;
  notifications?: { id: string; title: string; status: string }[];
  has_more?: boolean;
  preferences?: unknown;
}

/** Opens an event stream and waits until it is open. It reconnects until it is closed. */
export async function openStream(
  url: string,
  options: { lastEventId?: string; jwt?: string } = {},
): Promise<StreamClient & { source: EventSource }> {
  const start = options.lastEventId;
  const source = new EventSource(url, {
    fetch: (input, init) =>
      fetch(input, {
        ...init,
        headers: {
          ...(start === undefined ? {} : { 'last-event-id': start }),
          ...(options.jwt === undefined ? {} : { authorization: `Bearer ${options.jwt}` }),
          ...init.headers,
        },
      }),
  });
  const client = {
    source,
    frames: [] as ReceivedFrame[],
    resyncs: 0,
    themes: [] as unknown[],
    state: undefined as Snapshot | undefined,
    lastEventId: () => last,
  };
  let last = start ?? '';
  for (const name of NAMES) {
    source.addEventListener(name, (event) => {
      last = event.lastEventId;
      client.frames.push(JSON.parse(event.data));
    });
  }
  source.addEventListener('inbox/theme', (event) => {
    last = event.lastEventId;
    client.themes.push(JSON.parse(event.data).data);
  });
  source.addEventListener('ready', (event) => {
    client.state = JSON.parse(event.data);
  });
  source.addEventListener('resync', (event) => {
    last = event.lastEventId;
    client.resyncs += 1;
  });
  await new Promise<void>((resolve, reject) => {
    source.addEventListener('open', () => resolve(), { once: true });
    source.addEventListener('error', (error) => reject(error), { once: true });
  });
  return client;
}

/** Opens a stream by WebSocket and waits until it is ready. Rejects with the HTTP status of a refusal. */
export async function openStreamSocket(
  address: string,
  {
    jwt,
    lastEventId = '',
    snapshot,
    origin,
  }: { jwt: string; lastEventId?: string; snapshot?: number | string | undefined; origin?: string },
): Promise<StreamClient & Omit<SocketClient, 'frames'> & { heartbeats: number }> {
  const url = new URL(`${address.replace('http', 'ws')}${STREAM_PATH}`);
  if (lastEventId !== '') url.searchParams.set('last_event_id', lastEventId);
  if (snapshot !== undefined) url.searchParams.set('snapshot', String(snapshot));
  const socket = new WebSocket(
    url,
    ['belfry.v1', `belfry.jwt.${jwt}`],
    origin === undefined ? {} : { origin },
  );
  const ready = Promise.withResolvers<void>();
  let last = lastEventId;
  const client = {
    ...{ source: { close: () => socket.terminate() }, lastEventId: () => last },
    ...{ frames: [] as ReceivedFrame[], themes: [] as unknown[], resyncs: 0, heartbeats: 0 },
    state: undefined as Snapshot | undefined,
  };
  socket.on('message', (text) => {
    const { id, event, data } = JSON.parse(String(text));
    last = id ?? last;
    if (event === 'ready') {
      client.state = data;
      ready.resolve();
    } else if (event === 'resync') client.resyncs += 1;
    else if (event === 'heartbeat') client.heartbeats += 1;
    else if (event === 'inbox/theme') client.themes.push(data.data);
    else client.frames.push(data);
  });
  const { closed } = await opened(socket);
  await Promise.race([ready.promise, closed]);
  return Object.assign(client, { socket, closed });
}

/** The titles of the notifications in the frames. */
export function titles(frames: readonly ReceivedFrame[]): unknown[] {
  return frames.map(({ data }) => data.notification?.title);
}

export function newUser(): string {
  return randomUUID();
}
