import type { ErrorDetail } from './generated/types.ts';

/**
 * A call failed. If the server responded with an error, `status` is its HTTP status. If there was no
 * response, `status` is `undefined` and `code` is `network_error` or `timeout`.
 */
export class BelfryError extends Error {
  override readonly name = 'BelfryError';
  /** The HTTP status of the response, if there was one. */
  readonly status: number | undefined;
  /**
   * The code of the first problem, such as `validation_failed` or `not_found`. The client adds
   * `network_error`, `timeout` and `invalid_response`.
   */
  readonly code: string;
  /** All problems that the server reported. */
  readonly errors: readonly ErrorDetail[];
  /** The id of this request in the log of the server. */
  readonly requestId: string | undefined;
  /** How long the server asks to wait, from `Retry-After`; at most a day. */
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
    super(message, details); // only its cause
    this.code = details.code;
    this.status = details.status;
    this.errors = details.errors ?? [];
    this.requestId = details.requestId;
    this.retryAfterMs = details.retryAfterMs;
  }
}

/** Makes an error of a response. Reads its body. */
export async function errorOfResponse(what: string, response: Response): Promise<BelfryError> {
  const errors = problemsIn(await response.text().catch(() => ''));
  const { status } = response;
  const text = errors.map(({ message }) => message).join('; ') || response.statusText;
  return new BelfryError(`${what}: ${status} ${text}`.trimEnd(), {
    code: errors[0]?.code ?? `http_${status}`,
    status,
    errors,
    requestId: response.headers.get('x-request-id') ?? undefined,
    retryAfterMs: retryAfterMs(response.headers.get('retry-after')),
  });
}

// A timer of more than 24 days would end at once.
const LONGEST_MS = 86_400_000;

/** `Retry-After`, which is in seconds or a date, in milliseconds. */
function retryAfterMs(header: string | null): number | undefined {
  if (header === null) return undefined;
  const seconds = Number(header);
  const ms = Number.isNaN(seconds) ? Date.parse(header) - Date.now() : seconds * 1000;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(0, ms), LONGEST_MS);
}

/** The problems in a body. Proxies respond in other forms. */
function problemsIn(body: string): ErrorDetail[] {
  try {
    const { errors } = JSON.parse(body) as { errors?: unknown };
    return Array.isArray(errors) ? errors.filter((error) => typeof error?.message === 'string') : [];
  } catch {
    return [];
  }
}
