/** What one look has found. */
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

/** Works, but will not for long, or not as somebody may expect. */
export function warning(check: string, message: string, advice: string): Finding {
  return { check, status: 'warning', message, advice };
}

/** Does not work. */
export function problem(check: string, message: string, advice: string): Finding {
  return { check, status: 'problem', message, advice };
}

/** The system's word for an error, or its message. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  if (typeof code === 'string') return code;
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error.cause;
  return inner === undefined ? error.message : reasonOf(inner);
}
