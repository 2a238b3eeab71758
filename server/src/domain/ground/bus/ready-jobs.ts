import { JOB_KINDS, type JobKind } from '../../../queue/jobs.ts';
import type { Bus } from './messages.ts';

// Each message makes every other node look for jobs. A second one within this time could find little more.
const PAUSE_MS = 50;

/** Announces jobs that were committed to the workers of other nodes, at most once per kind and 50 ms. */
export class ReadyJobs {
  readonly #bus: Bus;
  readonly #nodeId: string;
  /** The kinds that were announced within the pause, and whether there are newer jobs of them. */
  readonly #announced = new Map<JobKind, { newer: boolean }>();

  constructor({ bus, nodeId }: { bus: Bus; nodeId: string }) {
    this.#bus = bus;
    this.#nodeId = nodeId;
  }

  announce(kind: JobKind): void {
    const announced = this.#announced.get(kind);
    if (announced !== undefined) {
      announced.newer = true;
      return;
    }
    const current = { newer: false };
    this.#announced.set(kind, current);
    this.#bus.publish({ type: 'jobs', kind, nodeId: this.#nodeId });
    setTimeout(() => {
      this.#announced.delete(kind);
      if (current.newer) this.announce(kind);
    }, PAUSE_MS).unref();
  }

  /** Calls `wake` for the kinds of jobs that other nodes have written. Returns a function that ends it. */
  follow(wake: (kind: JobKind) => void): () => void {
    return this.#bus.subscribe((message) => {
      if (message.type === 'jobs' && message.nodeId !== this.#nodeId) wake(message.kind);
      // Announcements may be among the lost messages.
      else if (message.type === 'missed') JOB_KINDS.forEach(wake);
    });
  }
}
