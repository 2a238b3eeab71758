// Why a reachable database cannot write, by SQLSTATE.
const REASONS: Readonly<Record<string, string>> = {
  '25006': 'it is read-only (a replica, or configured so)',
  '42501': 'its disk is read-only, or its user lacks a right',
  '53100': 'its disk is full',
  '58030': 'its disk fails',
};
// PostgreSQL stops if it cannot write its log: connections that are lost then are lost because of these.
const STOPPING: ReadonlySet<string> = new Set(['53100', '58030']);
const LOST = /^(?:08|57P|ECONN|ENOENT|EPIPE|ETIMEDOUT)/;
const LOST_MESSAGE = /^Connection terminated/;
// Every worker renews its lease every 2 s, so while writes fail there is always a recent failure.
const RECENT_MS = 5_000;

/** Why the database could not write, to follow "the database cannot write: "; undefined for other errors. */
export function whyNotWritten(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  return REASONS[codeOf(error)] ?? causes.get(error);
}

/** Why connections were lost whose errors say only that they were. */
const causes = new WeakMap<Error, string>();

const codeOf = (error: Error) => (error as NodeJS.ErrnoException).code ?? '';

/** Remembers why the database could not write, so that the readiness check need not write. */
export class WriteFailures {
  #code = '';
  #atMs = 0;

  /** Notes the error of a statement; errors with other causes are ignored. */
  note(error: unknown): void {
    if (!(error instanceof Error)) return;
    const code = codeOf(error);
    if (REASONS[code] === undefined) this.noteLost(error);
    else this.#keep(code);
  }

  /** Notes that a connection was lost or could not be opened: maybe because of a failure just before. */
  noteLost(error: unknown): void {
    const reason = this.recent();
    if (!(error instanceof Error) || reason === undefined || !STOPPING.has(this.#code)) return;
    if (!LOST.test(codeOf(error)) && !LOST_MESSAGE.test(error.message)) return;
    causes.set(error, reason);
    this.#keep(this.#code);
  }

  /** The reason of the last failure, if it is recent. */
  recent(): string | undefined {
    return performance.now() - this.#atMs < RECENT_MS ? REASONS[this.#code] : undefined;
  }

  #keep(code: string): void {
    this.#code = code;
    this.#atMs = performance.now();
  }
}
