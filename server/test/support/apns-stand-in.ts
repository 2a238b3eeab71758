/** APNs for tests: HTTP/2 on loopback. It checks tokens, headers and payloads as Apple documents. */
import { type KeyObject, verify } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  createSecureServer,
  createServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { type Outages, outagesOf } from './outage.ts';

export type ReceivedPush = {
  deviceToken: string;
  headers: IncomingHttpHeaders;
  payload: Record<string, unknown>;
};

export type ApnsStandIn = {
  address: string;
  /** The accepted pushes, in order. */
  pushes: ReceivedPush[];
  sessions: ServerHttp2Session[];
  /** The provider tokens, in the order in which they first arrived. */
  tokens: string[];
  /** Limits the concurrent streams of new sessions. */
  limitStreams(most: number): void;
  /** The most streams that one session had open at once. */
  mostStreams(): number;
  /** From now on, every push to this device gets this error. */
  fail(deviceToken: string, status: number, reason: string, more?: { timestamp: number }): void;
  outages: Outages;
  stop(): Promise<void>;
};

const MAX_TOKEN_AGE_SECONDS = 3600;
const MIN_BETWEEN_UPDATES_MS = 20 * 60_000;
const PUSH_TYPES = /^(?:alert|background|location|voip|complication|fileprovider|mdm|liveactivity)$/;
const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;

/** Accepts pushes of one team with one key to these topics. With `tls`, it uses TLS, as `localhost`. */
export async function startApnsStandIn({
  teamId,
  keyId,
  publicKey,
  topics,
  now = Date.now,
  tls = false,
}: {
  teamId: string;
  keyId: string;
  publicKey: KeyObject;
  topics: readonly string[];
  now?: () => number;
  tls?: boolean;
}): Promise<ApnsStandIn> {
  const failures = new Map<string, { status: number; body: object }>();
  let mostStreams = 0;
  const issued: { iat: number; since: number }[] = [];
  const standIn: Omit<ApnsStandIn, 'address' | 'outages' | 'stop'> = {
    pushes: [],
    sessions: [],
    tokens: [],
    limitStreams: (most) => server.updateSettings({ maxConcurrentStreams: most }),
    mostStreams: () => mostStreams,
    fail: (deviceToken, status, reason, more) =>
      failures.set(deviceToken, { status, body: { reason, ...more } }),
  };

  /** The rejection of a provider token that is wrong or changes too often. */
  function tokenProblem(authorization: string | undefined): Rejection | undefined {
    const [, jwt] = /^bearer (\S+)$/.exec(authorization ?? '') ?? [];
    if (jwt === undefined) return [403, 'MissingProviderToken'];
    const [header = '', claims = '', signature = ''] = jwt.split('.');
    const key = { key: publicKey, dsaEncoding: 'ieee-p1363' } as const;
    const signed = verify(
      'sha256',
      Buffer.from(`${header}.${claims}`),
      key,
      Buffer.from(signature, 'base64url'),
    );
    const { alg, kid } = decoded(header);
    const { iss, iat } = decoded(claims);
    const nowSeconds = now() / 1000;
    if (!signed || alg !== 'ES256' || kid !== keyId || iss !== teamId) return [403, 'InvalidProviderToken'];
    if (typeof iat !== 'number' || iat > nowSeconds + 1) return [403, 'InvalidProviderToken'];
    if (nowSeconds - iat > MAX_TOKEN_AGE_SECONDS) return [403, 'ExpiredProviderToken'];
    if (!standIn.tokens.includes(jwt)) standIn.tokens.push(jwt);
    const last = issued.at(-1);
    if (last?.iat === iat) return undefined;
    if (issued.length > 1 && last !== undefined && now() - last.since < MIN_BETWEEN_UPDATES_MS)
      return [429, 'TooManyProviderTokenUpdates'];
    issued.push({ iat, since: now() });
    return undefined;
  }

  function problemOf({ deviceToken, headers }: ReceivedPush, body: string): Rejection | undefined {
    const { 'apns-topic': topic, 'apns-push-type': type, 'apns-priority': priority = '10' } = headers;
    if (headers[':method'] !== 'POST') return [405, 'MethodNotAllowed'];
    if (!/^(?:[\da-f]{2})+$/i.test(deviceToken)) return [400, 'BadDeviceToken'];
    if (topic === undefined) return [400, 'MissingTopic'];
    if (!topics.includes(String(topic))) return [400, 'TopicDisallowed'];
    if (!PUSH_TYPES.test(String(type))) return [400, 'InvalidPushType'];
    if (!/^(?:10|5|1)$/.test(String(priority))) return [400, 'BadPriority'];
    if (!/^\d+$/.test(String(headers['apns-expiration'] ?? '0'))) return [400, 'BadExpirationDate'];
    if (headers['apns-id'] !== undefined && !UUID.test(String(headers['apns-id'])))
      return [400, 'BadMessageId'];
    if (Buffer.byteLength(String(headers['apns-collapse-id'] ?? '')) > 64) return [400, 'BadCollapseId'];
    if (body === '') return [400, 'PayloadEmpty'];
    return Buffer.byteLength(body) > 4096 ? [413, 'PayloadTooLarge'] : undefined;
  }

  function respond(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, body: string): void {
    const [, deviceToken = ''] = /^\/3\/device\/([^/]*)$/.exec(String(headers[':path'])) ?? [];
    const push = { deviceToken, headers, payload: decodedJson(body) };
    const rejection = tokenProblem(headers.authorization) ?? problemOf(push, body);
    const failure = rejection
      ? { status: rejection[0], body: { reason: rejection[1] } }
      : failures.get(deviceToken);
    if (stream.closed || stream.destroyed) return;
    if (failure === undefined) standIn.pushes.push(push);
    stream.respond({
      ':status': failure?.status ?? 200,
      'apns-id': headers['apns-id'] ?? '00000000-0000-4000-8000-000000000000',
    });
    stream.end(failure === undefined ? '' : JSON.stringify(failure.body));
  }

  const server = tls
    ? createSecureServer({ key: file('server.key'), cert: file('server.crt') })
    : createServer();
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.on('session', (session: ServerHttp2Session) => {
    standIn.sessions.push(session);
    session.on('error', () => {});
    let open = 0;
    session.on('stream', (stream: ServerHttp2Stream) => {
      open += 1;
      mostStreams = Math.max(mostStreams, open);
      stream.once('close', () => {
        open -= 1;
      });
    });
  });
  server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    const chunks: Buffer[] = [];
    stream.on('error', () => {});
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => respond(stream, headers, Buffer.concat(chunks).toString()));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    ...standIn,
    address: tls ? `https://localhost:${port}` : `http://127.0.0.1:${port}`,
    outages: outagesOf(server),
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

type Rejection = [status: number, reason: string];

function file(name: string): Buffer {
  return readFileSync(new URL(`tls/${name}`, import.meta.url));
}

function decoded(part: string): Record<string, unknown> {
  return decodedJson(Buffer.from(part, 'base64url').toString());
}

function decodedJson(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
