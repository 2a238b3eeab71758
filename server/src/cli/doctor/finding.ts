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
