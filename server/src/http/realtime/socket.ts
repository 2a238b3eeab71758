import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Frame } from '../../domain/after/realtime/frame.ts';
import type { Hub } from '../../domain/after/realtime/hub.ts';
import type { CloseReason, Connection } from '../../domain/after/realtime/subscription.ts';
import { ClientError } from '../../errors.ts';
import type { RateLimits } from '../rate-limit.ts';
import type { SocketAuthenticator, SocketCaller } from './authenticate-socket.ts';
import { MAX_PENDING_BYTES, whenDrained } from './pending.ts';
import {
  type LiveSocket,
  pathOf,
  queryOf,
  type SocketClient,
  WebSockets,
  type WebSocketsOptions,
} from './web-sockets.ts';
import { writeTogether } from './write-together.ts';

// Clients send no messages. Enough for what libraries send, and too little to fill memory.
export const MAX_INCOMING_BYTES = 4_096;
const MAX_TOKEN_CHARACTERS = 4_096;

/** The path of the WebSockets for GraphQL subscriptions. */
export const GRAPHQL_PATH = '/graphql';
/** That of the notification stream, by WebSocket as by Server-Sent Events. */
export const STREAM_PATH = '/v2/notifications/stream';

/** The status codes (RFC 6455; 4000 and up are ours) and reasons of closed sockets. */
export const CLOSINGS: Record<CloseReason | 'expired', [code: number, reason: string]> = {
  token_discarded: [4001, 'the token was discarded'],
  user_deleted: [4004, 'the user was deleted'],
  expired: [4005, 'the credential is no longer valid'],
  replaced: [4002, 'a newer connection has taken over'],
  too_many: [4003, 'too many connections of this user'],
  slow: [1013, 'reads too slowly: connect again and fetch what was missed'],
  behind: [1013, 'some messages may be missing: connect again and fetch the list'],
  shutdown: [1001, 'going away'],
};

export interface SocketOptions extends WebSocketsOptions {
  hub: Hub;
  authenticate: SocketAuthenticator;
  /** Counts the sockets of a token, and throws above the limit. */
  limits?: Pick<RateLimits, 'socket' | 'checkSocket'> | undefined;
}

/** Serves WebSockets at `/` of the HTTP server: `?api_key=…&token=…[&connection_id=…]`. */
export function serveSockets({
  hub,
  authenticate,
  limits,
  ...options
}: SocketOptions): Pick<WebSockets<SocketCaller>, 'close'> {
  return new WebSockets(options, {
    serves: (path) => path !== GRAPHQL_PATH && path !== STREAM_PATH,
    maxIncomingBytes: MAX_INCOMING_BYTES,
    admit: (request) => admit(request, { authenticate, limits }),
    open(socket, caller) {
      const client = new InboxSocket(socket, caller);
      client.onGone = hub.add(client);
      return client;
    },
  });
}

async function admit(
  request: IncomingMessage,
  { authenticate, limits }: Pick<SocketOptions, 'authenticate' | 'limits'>,
): Promise<SocketCaller> {
  if (pathOf(request) !== '/')
    throw new ClientError('not_found', [`There is no WebSocket at this path; it is at / or ${STREAM_PATH}`]);
  const parameters = queryOf(request);
  const apiKey = parameters.get('api_key') ?? '';
  const token = parameters.get('token') ?? '';
  const missing = ['api_key', 'token'].filter((name) => (parameters.get(name) ?? '') === '');
  if (missing.length > 0) {
    throw new ClientError(
      'jwt_auth_failed',
      missing.map((name) => `The query parameter '${name}' is missing`),
    );
  }
  const fits = token.length <= MAX_TOKEN_CHARACTERS;
  // The user of a token is only known from the database, which a client above its limit must not reach.
  const opener = hash('sha256', `${apiKey} ${token}`, 'base64url');
  limits?.checkSocket(opener);
  const caller = fits ? await authenticate({ apiKey, token }) : undefined;
  if (caller === undefined) {
    throw new ClientError('jwt_auth_failed', [
      'The API key or the token is unknown, or the token was discarded',
    ]);
  }
  if (caller.connectionId !== null && caller.connectionId !== parameters.get('connection_id')) {
    throw new ClientError('forbidden', ['The token is meant for another connection: connection_id differs']);
  }
  await limits?.socket(opener);
  return caller;
}

/** The WebSocket of an inbox. */
class InboxSocket implements Connection, SocketClient {
  readonly kind = 'socket';
  readonly projectId: string;
  readonly userId: string;
  readonly tokenId: string;
  readonly exclusive: boolean;
  readonly socket: LiveSocket;
  /** Removes it from the hub, so that nothing more is written. */
  onGone: () => void = () => {};

  constructor(socket: LiveSocket, caller: SocketCaller) {
    this.projectId = caller.projectId;
    this.userId = caller.userId;
    this.tokenId = caller.tokenId;
    this.exclusive = caller.connectionId !== null;
    this.socket = socket;
  }

  /**
   * Writes the frame to the TCP connection itself, one buffer for all sockets of a user. Without compression
   * the library keeps no state between frames that this could disturb.
   */
  send(frame: Frame): void {
    const { isOpen, stream } = this.socket;
    if (!isOpen) return;
    if (stream.writableLength > MAX_PENDING_BYTES) this.close('slow');
    else writeTogether(stream, encoded(frame));
  }

  begin(): void {} // the protocol has no cursor

  resync(): void {
    this.close('behind');
  }

  drained(): Promise<void> | undefined {
    return whenDrained(this.socket.stream);
  }

  visit(): void {
    this.socket.ping();
  }

  close(reason: CloseReason): void {
    this.onGone();
    this.socket.webSocket.close(...CLOSINGS[reason]);
  }

  closed(): void {
    this.onGone();
  }
}

// Published clients of this WebSocket know no snooze, and remove the notification.
const SNOOZED = '"name":"notifications/snoozed"';
const REMOVED = '"name":"notifications/delete"';

// The sockets of one user are written to one after another, all with the same frame.
let lastFrame: Frame | undefined;
let lastBytes: Buffer = Buffer.alloc(0);

function encoded(frame: Frame): Buffer {
  if (frame === lastFrame) return lastBytes;
  lastFrame = frame;
  const isSnoozed = frame.name === 'notifications/snoozed';
  lastBytes = encodeTextFrame(isSnoozed ? frame.json.replace(SNOOZED, REMOVED) : frame.json);
  return lastBytes;
}

/** A whole, unmasked text message as RFC 6455 (5.2) frames it. */
export function encodeTextFrame(text: string): Buffer {
  const length = Buffer.byteLength(text);
  const head = length < 126 ? 2 : length < 65_536 ? 4 : 10;
  const bytes = Buffer.allocUnsafe(head + length);
  bytes[0] = 0x81; // final fragment, text
  if (head === 2) bytes[1] = length;
  else if (head === 4) {
    bytes[1] = 126;
    bytes.writeUInt16BE(length, 2);
  } else {
    bytes[1] = 127;
    bytes.writeBigUInt64BE(BigInt(length), 2);
  }
  bytes.write(text, head);
  return bytes;
}
