import type { Clock } from '../../src/lib/clock.ts';

/** The clock of this machine, which a test can stop and move ahead. */
export class TestClock implements Clock {
  #offsetMs = 0;
  #stoppedAtMs: number | undefined;

  now(): number {
    return (this.#stoppedAtMs ?? Date.now()) + this.#offsetMs;
  }

  /** Stops the clock: from now on, only `advance` moves it. */
  stop(): void {
    this.#stoppedAtMs = Date.now();
  }

  advance(ms: number): void {
    this.#offsetMs += ms;
  }
}
