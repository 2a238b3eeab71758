/** The result of one check. */
export interface Finding {
  check: string;
  status: 'ok' | 'warning' | 'problem';
  message: string;
  /** What to do about it. */
  advice?: string;
}

export function ok(check: string, message: string): Finding {
  return { check, status: 'ok', message };
}

/** It works, but may fail later or work in an unexpected way. */
export function warning(check: string, message: string, advice: string): Finding {
  return { check, status: 'warning', message, advice };
}

/** It does not work. */
export function problem(check: string, message: string, advice: string): Finding {
  return { check, status: 'problem', message, advice };
}

/** The code of a system's error, or the message. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  if (typeof code === 'string') return code;
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error.cause;
  return inner === undefined ? error.message : reasonOf(inner);
}
