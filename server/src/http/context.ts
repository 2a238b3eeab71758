import type { Database } from '../db/client.ts';
import type { Hub } from '../domain/after/realtime/hub.ts';
import type { HitRecorder } from '../domain/after/tracking/record.ts';
import type { Context } from '../domain/context.ts';
import type { NodeBus } from '../domain/ground/bus/bus.ts';
import type { Bus } from '../domain/ground/bus/messages.ts';
import type { Acceptor } from '../domain/line/accept/send-broadcast.ts';
import type { TokenDiscarder } from '../domain/people/tokens/discard-gone.ts';
import type { LastSeen } from '../domain/people/users/last-seen.ts';
import type { KeyUses } from '../domain/setup/projects/key-uses.ts';
import type { RunStarter } from '../domain/workflows/engine/starter.ts';
import type { JobKind } from '../queue/jobs.ts';
import type { EventStreams } from './realtime/event-streams.ts';
import type { Streams } from './realtime/stream.ts';

/** The context of the HTTP server: that of the domain, and the parts that process requests. */
export interface HttpContext extends Context {
  /** The name of the cell. */
  readonly cell: string;
  readonly bus: NodeBus;
  readonly lastSeen: LastSeen;
  readonly keyUses: KeyUses;
  readonly acceptor: Acceptor;
  readonly runStarter: RunStarter;
  readonly hub: Hub;
  readonly streams: Streams;
  readonly eventStreams: EventStreams;
  readonly discarder: TokenDiscarder;
  readonly hits: HitRecorder;
  /** Starts jobs of this kind that were just committed. Otherwise they wait for the worker's next poll. */
  wake(kind: JobKind): void;
  /** Whether a stop was requested. The server still responds for SHUTDOWN_DELAY_SECONDS. */
  isStopping(): boolean;
}

/** The context as handlers get it: the database is the pool, or the transaction of an idempotent call. */
export type CallContext = Omit<HttpContext, 'db' | 'bus'> & {
  readonly db: Pick<Database, 'query' | 'transaction'>;
  readonly bus: Bus;
};
