// By SQLSTATE: what keeps a database that is there from writing.
const REASONS: Readonly<Record<string, string>> = {
  '25006': 'it takes no changes (a replica, or read-only)',
  '42501': 'it may not write (insufficient privilege, or a read-only disk)',
  '53100': 'its disk is full',
  '58030': 'its disk fails',
};
// The worker of every server renews its lease every 2 s, so while writes fail the next failure is never far.
const RECENT_MS = 5_000;

/** Remembers for a moment why the database could not write, so that readiness need not write to find out. */
export class WriteFailures {
  #reason: string | undefined;
  #atMs = 0;

  /** An error of any statement; those that have other causes are ignored. */
  note(error: unknown): void {
    const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
    const reason = REASONS[code ?? ''];
    if (reason === undefined) return;
    this.#reason = reason;
    this.#atMs = performance.now();
  }

  /** The reason of the last failure, if it was a moment ago. */
  recent(): string | undefined {
    return performance.now() - this.#atMs < RECENT_MS ? this.#reason : undefined;
  }
}
