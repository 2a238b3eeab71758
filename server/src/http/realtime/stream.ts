import type { FastifyReply } from 'fastify';
import type { Frame } from '../../domain/after/realtime/frame.ts';
import type { Hub } from '../../domain/after/realtime/hub.ts';
import type { ResumeCursor } from '../../domain/after/realtime/resume-cursor.ts';
import type { Connection } from '../../domain/after/realtime/subscription.ts';
import type { ProjectCache } from '../../domain/setup/projects/cache.ts';
import { isValidKey } from '../../domain/setup/projects/keys.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Credential } from '../auth.ts';
import type { Every } from './pending.ts';
import { respondToHead, SseConnection, SseConnections } from './sse.ts';

export interface StreamOptions {
  hub: Hub;
  clock: Clock;
  projects: Pick<ProjectCache, 'byId'>;
  every?: Every;
}

interface StreamCaller {
  projectId: string;
  userId: string;
  credential: Credential;
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
    { projectId, userId, credential, lastEventId }: StreamCaller,
  ): Promise<void> {
    const socket = reply.raw.socket;
    if (socket === null || socket.destroyed || respondToHead(reply)) return;
    const sse = new SseConnection(reply, socket, credential.expiresAtMs);
    // A client without an id sends an empty one.
    const resumeFrom = lastEventId === '' ? undefined : lastEventId?.toString();
    const leaveHub = await this.#options.hub.addFrom(
      new NotificationStream(projectId, userId, sse),
      resumeFrom,
    );
    sse.onBeat = () => void this.#closeIfKeyEnded(sse, projectId, credential.key.id);
    this.#connections.hold(sse, socket, leaveHub);
  }

  async #closeIfKeyEnded(sse: SseConnection, projectId: string, keyId: string): Promise<void> {
    const { projects, clock } = this.#options;
    try {
      const project = await projects.byId(projectId);
      if (project === undefined || !isValidKey(project.apiSecrets, keyId, clock.now())) sse.close();
    } catch {
      // The database is unavailable; the next heartbeat checks again.
    }
  }

  /** Ends all streams, within a second. */
  close(): Promise<void> {
    return this.#connections.close();
  }
}

/** One client's stream of a user's notifications. */
class NotificationStream implements Connection {
  readonly kind = 'stream';
  readonly projectId: string;
  readonly userId: string;
  readonly #sse: SseConnection;

  constructor(projectId: string, userId: string, sse: SseConnection) {
    this.projectId = projectId;
    this.userId = userId;
    this.#sse = sse;
  }

  begin(cursor: ResumeCursor): void {
    this.#sse.begin(cursor.toString());
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
