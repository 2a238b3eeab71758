import type { Duplex } from 'node:stream';

/**
 * What may wait for a slow reader. Beyond it the connection is closed: the reader comes back and asks for
 * what it missed.
 */
export const MAX_PENDING_BYTES = 1024 * 1024;

/**
 * Waits until a reader has taken what was written, where that is more than a little; `undefined` where it is
 * not.
 */
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

/** Calls `tick` again and again until the answer is called. Tests give a clockwork of their own. */
export type Every = (ms: number, tick: () => void) => () => void;

export const realEvery: Every = (ms, tick) => {
  const timer = setInterval(tick, ms);
  timer.unref();
  return () => clearInterval(timer);
};

/**
 * Visits every member once a period, a 25th of them at a time: a beat for ten thousand connections at once
 * would hold up everything else for as long as it takes.
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

  /** The answer takes the member out again. */
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
