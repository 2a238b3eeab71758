import type { Duplex } from 'node:stream';

/**
 * The most bytes that may wait for a slow reader. Above it the connection is closed, and the reader resumes
 * with a new one.
 */
export const MAX_PENDING_BYTES = 1024 * 1024;

/** Waits until the socket is drained if much is pending; else returns `undefined`. */
export function whenDrained(socket: Duplex): Promise<void> | undefined {
  if (!socket.writableNeedDrain || socket.writableLength < MAX_PENDING_BYTES / 4) return undefined;
  return new Promise((resolve) => {
    const done = () => {
      socket.off('drain', done);
      socket.off('close', done);
      resolve();
    };
    socket.on('drain', done);
    socket.on('close', done);
  });
}

/** Calls `tick` repeatedly until the returned function is called. Tests use their own. */
export type Every = (ms: number, tick: () => void) => () => void;

export const realEvery: Every = (ms, tick) => {
  const timer = setInterval(tick, ms);
  timer.unref();
  return () => clearInterval(timer);
};

/**
 * Visits every member once per period, a 25th of them at a time, because heartbeats for ten thousand
 * connections at once would block the event loop.
 */
export class Rounds<Member> {
  static readonly SLICES = 25;
  readonly #slices = Array.from({ length: Rounds.SLICES }, () => new Set<Member>());
  readonly #stop: () => void;
  #added = 0;
  #visited = 0;

  constructor(periodMs: number, visit: (member: Member) => void, every: Every) {
    this.#stop = every(periodMs / Rounds.SLICES, () => {
      this.#visited = (this.#visited + 1) % Rounds.SLICES;
      for (const member of this.#slices[this.#visited] ?? []) visit(member);
    });
  }

  /** Returns a function that removes the member. */
  add(member: Member): () => void {
    this.#added = (this.#added + 1) % Rounds.SLICES;
    const slice = this.#slices[this.#added];
    slice?.add(member);
    return () => slice?.delete(member);
  }

  stop(): void {
    this.#stop();
  }
}
