const WRITTEN_EVERY_MS = 60_000;
// More different lines in a minute are no repetition.
const MAX_LINES = 500;

/** Finds lines of a log that were written less than a minute ago, so that an outage does not flood it. */
export class RepeatedLines {
  /** Lines that were written, the latest last, and how often each was left out since then. */
  readonly #written = new Map<string, { atMs: number; leftOut: number }>();

  /**
   * Returns how often the line was left out since it was last written, or undefined if it is to be left out
   * now. `nowMs` is monotonic.
   */
  note(line: string, nowMs: number): number | undefined {
    const last = this.#written.get(line);
    if (last !== undefined && nowMs - last.atMs < WRITTEN_EVERY_MS) {
      last.leftOut += 1;
      return undefined;
    }
    this.#written.delete(line);
    this.#written.set(line, { atMs: nowMs, leftOut: 0 });
    const [oldest] = this.#written.keys();
    if (this.#written.size > MAX_LINES && oldest !== undefined) this.#written.delete(oldest);
    return last?.leftOut ?? 0;
  }
}
