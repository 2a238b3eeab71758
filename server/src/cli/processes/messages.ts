import type { Role } from '../../config.ts';
import type { MetricsOfProcess } from '../../metrics.ts';
import type { SupervisedDatabase } from '../../open.ts';
import type { Work } from '../../queue/jobs.ts';

/** What the supervisor sends to a process. */
export type ToProcess =
  /** The first message. */
  | ({ type: 'start' } & Part)
  /** Drain and exit. */
  | { type: 'stop' }
  /** A realtime connection, which comes with the message; `head` has the bytes that were read from it. */
  | { type: 'connection'; head: Buffer }
  /** Send your metrics. */
  | { type: 'measure'; id: number }
  /** The metrics of all other processes, in response to `metrics`; those that ended have counters. */
  | { type: 'metrics'; id: number; metrics: readonly MetricsOfProcess[] };

/** What a process sends to the supervisor. */
export type FromProcess =
  /** It has started. `address` is empty if it does not listen. */
  | { type: 'ready'; address: string }
  /** Sent every second once it has started. One that is debugged may be stopped at a breakpoint. */
  | { type: 'alive'; isDebugged: boolean }
  /** It cannot start, and exits. */
  | { type: 'failed'; reason: string }
  /** For the process that serves realtime connections. */
  | { type: 'connection'; head: Buffer }
  /** Return the metrics of the others. `own` are those of this process, which it is about to show. */
  | { type: 'metrics'; id: number; own: MetricsOfProcess }
  /** The response to `measure`. */
  | { type: 'measured'; id: number; metrics: MetricsOfProcess };

/** The part of a process. */
export interface Part extends SupervisedDatabase {
  /** Its number in the log, from 1 on. */
  process: number;
  roles: readonly Role[];
  listens: boolean;
  work: Work;
  port: number;
}
