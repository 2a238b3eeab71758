/** One problem that the server found. */
export interface ErrorDetail {
  /** What went wrong, for programs. */
  code?: string;
  /** What went wrong, for people; names the field. */
  message: string;
  suggestion?: string;
  help_link?: string;
}

/**
 * A call that did not succeed. Either the server refused it, and `status` says how, or there was no answer,
 * and `status` is `undefined`: `code` is `network_error` then, or `timeout`.
 */
export class BelfryError extends Error {
  override readonly name = 'BelfryError';
  /** The HTTP status of the answer, if there was one. */
  readonly status: number | undefined;
  /**
   * The code of the first problem: `validation_failed`, `not_found`, …; `network_error`, `timeout`,
   * `invalid_response` are the client's own.
   */
  readonly code: string;
  /** All problems that the server named. */
  readonly errors: readonly ErrorDetail[];
  /** What the server calls this request in its log. */
  readonly requestId: string | undefined;
  /** How long the server wants to be left alone. */
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    details: {
      code: string;
      status?: number | undefined;
      errors?: readonly ErrorDetail[];
      requestId?: string | undefined;
      retryAfterMs?: number | undefined;
      cause?: unknown;
    },
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = details.code;
    this.status = details.status;
    this.errors = details.errors ?? [];
    this.requestId = details.requestId;
    this.retryAfterMs = details.retryAfterMs;
  }
}

/** The error that an answer of the server amounts to. Reads its body. */
export async function errorOfAnswer(what: string, response: Response): Promise<BelfryError> {
  const errors = problemsIn(await response.text().catch(() => ''));
  const { status } = response;
  const said = errors.map(({ message }) => message).join('; ');
  return new BelfryError(
    `${what}: ${status}${said === '' ? ` ${response.statusText}`.trimEnd() : ` ${said}`}`,
    {
      code: errors[0]?.code ?? `http_${status}`,
      status,
      errors,
      requestId: response.headers.get('x-request-id') ?? undefined,
      retryAfterMs: retryAfterMs(response.headers.get('retry-after'), Date.now()),
    },
  );
}

/** `Retry-After` in milliseconds: it is either seconds or a date. */
function retryAfterMs(header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined;
  if (/^\s*\d+(\.\d+)?\s*$/.test(header)) return Math.ceil(Number(header) * 1000);
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

/** What stands between the server and us may answer by itself, in its own words. */
function problemsIn(body: string): ErrorDetail[] {
  try {
    const { errors } = JSON.parse(body) as { errors?: unknown };
    return Array.isArray(errors) ? errors.filter((error) => typeof error?.message === 'string') : [];
  } catch {
    return [];
  }
}
