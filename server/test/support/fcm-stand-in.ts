/**
 * FCM for tests: its token endpoint, which checks assertions, and its endpoint for messages over HTTP/2,
 * which checks messages as FCM does.
 */
import { createPublicKey, type KeyObject, randomUUID, verify } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import {
  createServer as createHttp2Server,
  createSecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import type { VendorReply } from './http-stand-in.ts';
import { type Outages, outagesOf } from './outage.ts';

export type FcmStandIn = {
  address: string;
  tokenUri: string;
  /** The accepted messages, in order. */
  messages: Record<string, unknown>[];
  sessions: ServerHttp2Session[];
  /** How many access tokens were requested. */
  tokenRequests: number;
  /** The valid access tokens. */
  tokens(): string[];
  /** Rejects all access tokens that it has issued. */
  forgetTokens(): void;
  /** From now on, messages to this device get this reply. */
  fail(deviceToken: string, reply: VendorReply): void;
  /** Sets the reply of the token endpoint; `undefined` ends it. */
  failTokens(reply: { status: number; body: unknown } | undefined): void;
  outages: Outages;
  stop(): Promise<void>;
};

/**
 * Accepts messages of one project from one service account. With `tls`, it uses TLS and accepts HTTP/1.1,
 * too.
 */
export async function startFcmStandIn({
  projectId,
  clientEmail,
  privateKey,
  now = Date.now,
  tls = false,
  audience,
}: {
  projectId: string;
  clientEmail: string;
  privateKey: KeyObject;
  now?: () => number;
  tls?: boolean;
  /** The `aud` of assertions; by default the address of its own token endpoint. */
  audience?: string;
}): Promise<FcmStandIn> {
  const publicKey = createPublicKey(privateKey);
  const failures = new Map<string, VendorReply>();
  const tokens = new Map<string, number>();
  const sockets = new Set<Socket>();
  let failedTokens: { status: number; body: unknown } | undefined;

  const tokenServer = createServer((request, response) => {
    standIn.tokenRequests += 1;
    const chunks: Buffer[] = [];
    request.on('error', () => {}); // the client ended the request
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const form = new URLSearchParams(Buffer.concat(chunks).toString());
      const { status, body } = failedTokens ?? grant(form);
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
  });

  function grant(form: URLSearchParams): { status: number; body: unknown } {
    const [header = '', claims = '', signature = ''] = (form.get('assertion') ?? '').split('.');
    const signed = verify(
      'sha256',
      Buffer.from(`${header}.${claims}`),
      publicKey,
      Buffer.from(signature, 'base64url'),
    );
    const { iss, aud, scope, iat, exp } = decoded(claims);
    const nowSeconds = now() / 1000;
    const good =
      form.get('grant_type') === 'urn:ietf:params:oauth:grant-type:jwt-bearer' &&
      signed &&
      iss === clientEmail &&
      aud === (audience ?? standIn.tokenUri) &&
      scope === 'https://www.googleapis.com/auth/firebase.messaging' &&
      Number(iat) <= nowSeconds &&
      Number(exp) > nowSeconds &&
      Number(exp) - Number(iat) <= 3600;
    if (!good) return { status: 400, body: { error: 'invalid_grant', error_description: 'Bad assertion' } };
    const token = `ya29.${randomUUID()}`;
    tokens.set(token, now() + 3599_000);
    return { status: 200, body: { access_token: token, expires_in: 3599, token_type: 'Bearer' } };
  }

  function replyTo(
    { url, headers }: { url: string; headers: IncomingHttpHeaders },
    body: string,
  ): VendorReply {
    const [, token = ''] = /^Bearer (\S+)$/.exec(headers.authorization ?? '') ?? [];
    if ((tokens.get(token) ?? 0) <= now())
      return fault(401, 'UNAUTHENTICATED', 'Request had invalid authentication credentials.');
    if (url !== `/v1/projects/${projectId}/messages:send`)
      return fault(404, 'NOT_FOUND', 'Requested entity was not found.');
    const { message } = parsed(body) as { message?: Record<string, unknown> };
    // Also the body of a stream that was reset before it was complete.
    if (message === undefined) return fault(400, 'INVALID_ARGUMENT', 'Invalid JSON payload received.');
    const failure = failures.get(String(message.token));
    if (failure !== undefined) return failure;
    const problem = problemOf(message);
    if (problem !== undefined) return fault(400, 'INVALID_ARGUMENT', ...problem);
    standIn.messages.push(message);
    const name = `projects/${projectId}/messages/${standIn.messages.length}`;
    return { status: 200, body: { name } };
  }

  const server = tls
    ? createSecureServer({ key: file('server.key'), cert: file('server.crt'), allowHTTP1: true })
    : createHttp2Server();
  server.on('session', (session: ServerHttp2Session) => {
    standIn.sessions.push(session);
    session.on('error', () => {});
  });
  server.on('request', (request: Http2ServerRequest, response: Http2ServerResponse) => {
    const chunks: Buffer[] = [];
    request.on('error', () => {});
    response.on('error', () => {});
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { status, headers, body } = replyTo(request, Buffer.concat(chunks).toString());
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(JSON.stringify(body));
    });
  });
  for (const one of [server, tokenServer]) {
    one.on('connection', (socket: Socket) => sockets.add(socket));
    await once(one.listen(0, '127.0.0.1'), 'listening');
  }
  const origin = ({ port }: AddressInfo) => `http://127.0.0.1:${port}`;
  const address = origin(server.address() as AddressInfo);
  const standIn: FcmStandIn = {
    address: tls ? address.replace('http:', 'https:') : address,
    tokenUri: `${origin(tokenServer.address() as AddressInfo)}/token`,
    messages: [],
    sessions: [],
    tokenRequests: 0,
    tokens: () => [...tokens.keys()],
    forgetTokens: () => tokens.clear(),
    fail: (deviceToken, reply) => failures.set(deviceToken, reply),
    failTokens(reply) {
      failedTokens = reply;
    },
    outages: outagesOf(server),
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      tokenServer.close();
      await Promise.all([once(server, 'close'), once(tokenServer, 'close')]);
    },
  };
  return standIn;
}

/** An error in the format of Google's services. */
export function fault(status: number, name: string, message: string, details: object[] = []): VendorReply {
  return { status, body: { error: { code: status, message, status: name, details } } };
}

/** An error code of FCM in the details of an error. */
export function fcmError(errorCode: string): object {
  return { '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError', errorCode };
}

/** A member of the request that is wrong, in the details of an error. */
export function violation(field: string, description = 'Invalid'): object {
  return {
    '@type': 'type.googleapis.com/google.rpc.BadRequest',
    fieldViolations: [{ field, description }],
  };
}

const MEMBERS = new Set(['token', 'notification', 'data', 'android', 'apns', 'webpush', 'fcm_options']);

function problemOf(message: Record<string, unknown>): [string, object[]] | undefined {
  const { token, data = {}, webpush } = message;
  const wrong = (field: string): [string, object[]] => [
    `Invalid value at '${field}'`,
    [violation(field), fcmError('INVALID_ARGUMENT')],
  ];
  const unknown = Object.keys(message).find((name) => !MEMBERS.has(name));
  if (unknown !== undefined) return wrong(`message.${unknown}`);
  if (typeof token !== 'string' || token.includes(' ')) return wrong('message.token');
  for (const [name, value] of Object.entries(data as object))
    if (typeof value !== 'string' || /^(?:from|message_type|google\..*|gcm\..*)$/.test(name))
      return wrong(`message.data.${name}`);
  const { fcm_options: options } = (webpush ?? {}) as { fcm_options?: { link?: string } };
  if (options?.link !== undefined && !options.link.startsWith('https://'))
    return wrong('message.webpush.fcm_options.link');
  const { token: _, ...rest } = message;
  return Buffer.byteLength(JSON.stringify(rest)) > 4096 ? ['Message too big', []] : undefined;
}

function file(name: string): Buffer {
  return readFileSync(new URL(`tls/${name}`, import.meta.url));
}

function decoded(part: string): Record<string, unknown> {
  return parsed(Buffer.from(part, 'base64url').toString());
}

function parsed(json: string): Record<string, unknown> {
  try {
    return JSON.parse(json) as Record<string, unknown>;
  } catch {
    return {};
  }
}
