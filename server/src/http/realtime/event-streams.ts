import type { FastifyReply } from 'fastify';
import type { EventType } from '../../contract/event.ts';
import type { Bus } from '../../domain/ground/bus/messages.ts';
import { type FeedDatabase, feedEnd, findPosition, positionText } from '../../domain/ground/events/feed.ts';
import type { FeedFollower } from '../../domain/ground/events/follow.ts';
import type { ProjectCache } from '../../domain/setup/projects/cache.ts';
import { isValidKey } from '../../domain/setup/projects/keys.ts';
import type { Clock } from '../../lib/clock.ts';
import { writeJson } from '../../lib/exact-numbers.ts';
import { sockets } from '../../metrics.ts';
import type { Credential } from '../auth.ts';
import type { Every } from './pending.ts';
import { respondToHead, SseConnection, SseConnections } from './sse.ts';

// A project with more has a program that does not close them.
const MAX_STREAMS_PER_PROJECT = 100;

export interface EventStreamOptions {
  db: FeedDatabase;
  bus: Bus;
  clock: Clock;
  projects: Pick<ProjectCache, 'byId'>;
  follower: FeedFollower;
  every?: Every;
}

interface EventStreamCaller {
  projectId: string;
  /** The `jti` of the Project JWT: a stream ends when it is revoked. */
  tokenId: string;
  credential: Credential;
  types: readonly EventType[] | undefined;
  /** The header as it came. */
  lastEventId: string | string[] | undefined;
}

interface OpenStream {
  projectId: string;
  tokenId: string;
  keyId: string;
  sse: SseConnection;
}

/** The event streams of projects on this node. */
export class EventStreams {
  readonly #options: EventStreamOptions;
  readonly #connections: SseConnections;
  readonly #open = new Set<OpenStream>();
  readonly #unsubscribe: () => void;

  constructor(options: EventStreamOptions) {
    this.#options = options;
    this.#connections = new SseConnections(options);
    this.#unsubscribe = options.bus.subscribe((message) => {
      if (message.type === 'project_moved')
        for (const { projectId, sse } of this.#open) if (projectId === message.projectId) sse.close();
      if (message.type !== 'project_changed' && message.type !== 'missed') return;
      for (const stream of this.#open)
        if (message.type === 'missed' || stream.projectId === message.projectId)
          void this.#closeIfRevoked(stream);
    });
  }

  /** Takes over the response. Rejects before it has started if the database cannot be read. */
  async open(reply: FastifyReply, caller: EventStreamCaller): Promise<void> {
    const { db, follower } = this.#options;
    const { projectId, tokenId, credential, types, lastEventId } = caller;
    const socket = reply.raw.socket;
    if (socket === null || socket.destroyed || respondToHead(reply)) return;
    const resumed = lastEventId ? await findPosition(db, projectId, lastEventId.toString()) : undefined;
    const position = resumed?.position ?? (await feedEnd(db));
    const sse = new SseConnection(reply, socket, credential.expiresAtMs);
    sse.begin(positionText(position));
    if (resumed?.certain === false) sse.resync(positionText(position));
    const following = follower.follow(
      {
        projectId,
        types,
        receive: (event, at) => sse.event(positionText(at), event.type, writeJson(event)),
        drained: () => sse.drained(),
      },
      position,
    );
    const stream = { projectId, tokenId, keyId: credential.key.id, sse };
    this.#enter(stream);
    // Without this, a client that filters for rare types would resume from an old event, and all events since
    // would be read again.
    let marked = position;
    sse.onBeat = () => {
      const now = following.position();
      if (now !== marked) sse.mark(positionText(now));
      marked = now;
      void this.#closeIfRevoked(stream);
    };
    this.#connections.hold(sse, socket, () => {
      following.end();
      this.#leave(stream);
    });
  }

  /** Ends all streams, within a second. */
  async close(): Promise<void> {
    this.#unsubscribe();
    await this.#connections.close();
  }

  #enter(stream: OpenStream): void {
    this.#open.add(stream);
    sockets.inc({ transport: 'sse' });
    const ofProject = [...this.#open].filter(({ projectId }) => projectId === stream.projectId);
    if (ofProject.length > MAX_STREAMS_PER_PROJECT) ofProject[0]?.sse.close();
  }

  #leave(stream: OpenStream): void {
    if (this.#open.delete(stream)) sockets.dec({ transport: 'sse' });
  }

  /** Closes the stream if its token or the key that signed it is no longer valid. */
  async #closeIfRevoked({ projectId, tokenId, keyId, sse }: OpenStream): Promise<void> {
    const { projects, clock } = this.#options;
    try {
      const project = await projects.byId(projectId);
      const isValid =
        project !== undefined &&
        !project.revokedTokens.has(tokenId) &&
        isValidKey(project.signingKeys, keyId, clock.now());
      if (!isValid) sse.close();
    } catch {
      // The database is unavailable; the next heartbeat checks again.
    }
  }
}
