import type { FastifyReply } from 'fastify';
import type { Frame } from '../../domain/after/realtime/frame.ts';
import type { Hub } from '../../domain/after/realtime/hub.ts';
import type { ResumeCursor } from '../../domain/after/realtime/resume-cursor.ts';
import type { Connection } from '../../domain/after/realtime/subscription.ts';
import type { Credential } from '../auth.ts';
import type { Every } from './pending.ts';
import { respondToHead, SseConnection, SseConnections } from './sse.ts';
import { isValidNow, type ValidityDeps } from './validity.ts';

export interface StreamOptions extends ValidityDeps {
  hub: Hub;
  every?: Every;
}

interface StreamCaller {
  projectId: string;
  userId: string;
  credential: Credential;
  snapshot: Connection['snapshot'];
  /** The header as it came. */
  lastEventId: string | string[] | undefined;
}

/** The notification streams of users on this node. */
export class Streams {
  readonly #options: StreamOptions;
  readonly #connections: SseConnections;

  constructor(options: StreamOptions) {
    this.#options = options;
    this.#connections = new SseConnections(options);
  }

  /** Takes over the response. Rejects before it has started if the database cannot be read. */
  async open(
    reply: FastifyReply,
    { projectId, userId, credential, snapshot, lastEventId }: StreamCaller,
  ): Promise<void> {
    const socket = reply.raw.socket;
    if (socket === null || socket.destroyed || respondToHead(reply)) return;
    const sse = new SseConnection(reply, socket, credential.expiresAtMs);
    // A client without an id sends an empty one.
    const resumeFrom = lastEventId === '' ? undefined : lastEventId?.toString();
    const leaveHub = await this.#options.hub.addFrom(
      new NotificationStream(projectId, userId, sse, snapshot),
      resumeFrom,
    );
    sse.onBeat = async () => {
      if (!(await isValidNow(this.#options, { credential, project: { id: projectId } }))) sse.close();
    };
    this.#connections.hold(sse, socket, leaveHub);
  }

  /** Ends all streams, within a second. */
  close(): Promise<void> {
    return this.#connections.close();
  }
}

/** One client's stream of a user's notifications. */
class NotificationStream implements Connection {
  readonly kind = 'stream';
  readonly showsAppearance = true;
  readonly projectId: string;
  readonly userId: string;
  readonly snapshot: Connection['snapshot'];
  readonly #sse: SseConnection;

  constructor(projectId: string, userId: string, sse: SseConnection, snapshot: Connection['snapshot']) {
    this.projectId = projectId;
    this.userId = userId;
    this.snapshot = snapshot;
    this.#sse = sse;
  }

  begin(cursor: ResumeCursor, snapshotJson?: string): void {
    this.#sse.begin(cursor.toString(), snapshotJson);
  }

  send(frame: Frame, cursor: ResumeCursor): void {
    this.#sse.event(cursor.toString(), frame.name, frame.json);
  }

  resync(cursor: ResumeCursor): void {
    this.#sse.resync(cursor.toString());
  }

  drained(): Promise<void> | undefined {
    return this.#sse.drained();
  }

  close(): void {
    this.#sse.close();
  }
}
