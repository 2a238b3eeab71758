import type { IncomingMessage } from 'node:http';
import type { Frame } from '../../domain/after/realtime/frame.ts';
import type { Hub } from '../../domain/after/realtime/hub.ts';
import type { ResumeCursor } from '../../domain/after/realtime/resume-cursor.ts';
import type { CloseReason, Connection } from '../../domain/after/realtime/subscription.ts';
import { ClientError } from '../../errors.ts';
import type { UserCaller } from '../auth.ts';
import { MAX_PENDING_BYTES, whenDrained } from './pending.ts';
import { CLOSINGS, encodeTextFrame, MAX_INCOMING_BYTES, STREAM_PATH } from './socket.ts';
import { isValidNow, type ValidityDeps } from './validity.ts';
import {
  type LiveSocket,
  queryOf,
  type SocketClient,
  WebSockets,
  type WebSocketsOptions,
} from './web-sockets.ts';
import { writeTogether } from './write-together.ts';

const PROTOCOL = 'belfry.v1';
// A browser can send no header with a WebSocket, and an address ends up in logs.
const TOKEN_PREFIX = 'belfry.jwt.';
// As in the event stream (sse.ts). Programs in browsers do not see pings.
const HEARTBEAT_EVERY_MS = 15_000;
const HEARTBEAT = encodeTextFrame('{"event":"heartbeat"}');

export interface StreamSocketsOptions extends WebSocketsOptions, ValidityDeps {
  hub: Hub;
  /** Throws a `ClientError` for a client that is rejected. */
  authenticate(token: string, lastEventId: string | undefined): Promise<UserCaller>;
  /** Returns what the first message of a stream has. Throws a `ClientError` for a wrong query. */
  snapshotFor(caller: UserCaller, query: URLSearchParams): Connection['snapshot'];
}

interface Admitted {
  caller: UserCaller;
  snapshot: Connection['snapshot'];
  lastEventId: string | undefined;
}

/** Serves the notification stream of users by WebSocket, with the same messages as Server-Sent Events. */
export function serveStreamSockets({
  hub,
  authenticate,
  snapshotFor,
  projects,
  clock,
  ...options
}: StreamSocketsOptions): Pick<WebSockets<Admitted | undefined>, 'close'> {
  return new WebSockets<Admitted | undefined>(options, {
    serves: (path) => path === STREAM_PATH,
    maxIncomingBytes: MAX_INCOMING_BYTES,
    visitEveryMs: HEARTBEAT_EVERY_MS,
    handleProtocols: () => PROTOCOL,
    async admit(request) {
      const token = tokenOf(request);
      const query = queryOf(request);
      // A client without an id may send an empty one.
      const lastEventId = query.get('last_event_id') || undefined;
      try {
        const caller = await authenticate(token, lastEventId);
        return { caller, snapshot: snapshotFor(caller, query), lastEventId };
      } catch (error) {
        if (!(error instanceof ClientError) || error.code !== 'user_deleted') throw error;
        await options.onRefused?.(request);
        return undefined;
      }
    },
    open(socket, admitted) {
      if (admitted === undefined) return new RejectedSocket(socket);
      const { caller, snapshot, lastEventId } = admitted;
      const isValid = () => isValidNow({ projects, clock }, caller);
      const client = new StreamSocket(socket, caller, snapshot, isValid);
      hub.addFrom(client, lastEventId).then(
        (leave) => client.joined(leave),
        () => client.close('behind'),
      );
      return client;
    },
  });
}

/** The token among the sub-protocols that the client offers. */
function tokenOf({ headers }: IncomingMessage): string {
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
  const token = offered.find((name) => name.startsWith(TOKEN_PREFIX))?.slice(TOKEN_PREFIX.length);
  if (!token)
    throw new ClientError('invalid_jwt_format', [`The sub-protocol '${TOKEN_PREFIX}<User JWT>' is missing`]);
  if (!offered.includes(PROTOCOL))
    throw new ClientError('bad_request', [`The sub-protocol '${PROTOCOL}' is missing`]);
  return token;
}

/** The socket of a deleted user. Programs in browsers do not see why a handshake fails, but a close code. */
class RejectedSocket implements SocketClient {
  readonly socket: LiveSocket;

  constructor(socket: LiveSocket) {
    this.socket = socket;
    socket.webSocket.close(...CLOSINGS.user_deleted);
  }

  visit(): void {}
  close(): void {}
  closed(): void {}
}

/** One client's stream of a user's notifications. */
class StreamSocket implements Connection, SocketClient {
  readonly kind = 'socket';
  readonly showsAppearance = true;
  readonly projectId: string;
  readonly userId: string;
  readonly snapshot: Connection['snapshot'];
  readonly socket: LiveSocket;
  readonly #isValid: () => Promise<boolean>;
  #leave: (() => void) | undefined;
  #isClosed = false;

  constructor(
    socket: LiveSocket,
    { project, userId }: UserCaller,
    snapshot: Connection['snapshot'],
    isValid: () => Promise<boolean>,
  ) {
    this.projectId = project.id;
    this.userId = userId;
    this.snapshot = snapshot;
    this.socket = socket;
    this.#isValid = isValid;
  }

  /** The hub has it. Calls `leave` when nothing more may be written. */
  joined(leave: () => void): void {
    this.#leave = leave;
    if (this.#isClosed) leave();
  }

  begin(cursor: ResumeCursor, snapshotJson?: string): void {
    const data = snapshotJson === undefined ? '' : `,"data":${snapshotJson}`;
    this.#write(`{"id":"${cursor}","event":"ready"${data}}`);
  }

  send(frame: Frame, cursor: ResumeCursor): void {
    if (this.socket.stream.writableLength > MAX_PENDING_BYTES) this.close('slow');
    else this.#write(`{"id":"${cursor}","event":"${frame.name}","data":${frame.json}}`);
  }

  resync(cursor: ResumeCursor): void {
    this.#write(`{"id":"${cursor}","event":"resync","data":{"name":"resync"}}`);
  }

  drained(): Promise<void> | undefined {
    return whenDrained(this.socket.stream);
  }

  async visit(): Promise<void> {
    if (!(await this.#isValid())) {
      this.close('expired');
      return;
    }
    if (this.socket.isOpen) this.socket.stream.write(HEARTBEAT);
    this.socket.ping();
  }

  close(reason: CloseReason | 'expired'): void {
    this.closed();
    this.socket.webSocket.close(...CLOSINGS[reason]);
  }

  closed(): void {
    this.#isClosed = true;
    this.#leave?.();
  }

  #write(text: string): void {
    if (this.socket.isOpen) writeTogether(this.socket.stream, encodeTextFrame(text));
  }
}
