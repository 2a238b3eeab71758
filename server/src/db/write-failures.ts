// Why a reachable database cannot write, by SQLSTATE.
const REASONS: Readonly<Record<string, string>> = {
  '25006': 'it is read-only (a replica, or configured so)',
  '42501': 'its disk is read-only, or its user lacks a right',
  '53100': 'its disk is full',
  '58030': 'its disk fails',
};
// Every worker renews its lease every 2 s, so while writes fail there is always a recent failure.
const RECENT_MS = 5_000;

/** Why the database could not write, to follow "the database cannot write: "; undefined for other errors. */
export function whyNotWritten(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return REASONS[code ?? ''];
}

/** Remembers why the database could not write, so that the readiness check need not write. */
export class WriteFailures {
  #reason: string | undefined;
  #atMs = 0;

  /** Notes the error of a statement; errors with other causes are ignored. */
  note(error: unknown): void {
    const reason = whyNotWritten(error);
    if (reason === undefined) return;
    this.#reason = reason;
    this.#atMs = performance.now();
  }

  /** The reason of the last failure, if it is recent. */
  recent(): string | undefined {
    return performance.now() - this.#atMs < RECENT_MS ? this.#reason : undefined;
  }
}
