/**
 * Every error that a client can be told: code, status and message, written once. The reference page is
 * generated from here. Statuses and codes are those of the contract and of the decisions about what it leaves
 * open.
 */
const TABLE = {
  invalid_json: { status: 400, message: 'The request body is not valid JSON' },
  invalid_id: { status: 400, message: 'The id in the path is not a UUID' },
  bad_request: { status: 400, message: 'The request cannot be read' },
  invalid_jwt_format: { status: 401, message: 'The Authorization header is not of the form Bearer <token>' },
  unparsable_jwt_token: { status: 401, message: 'The token is not a JWT that this server can read' },
  jwt_auth_failed: {
    status: 401,
    message: 'The token is not valid: wrong signature, expired, not yet valid, or revoked',
  },
  invalid_signature: {
    status: 401,
    message: 'The webhook is not signed with the secret of an integration with this id',
  },
  forbidden: { status: 403, message: 'The token does not permit this operation' },
  not_found: { status: 404, message: 'Not found' },
  method_not_allowed: { status: 405, message: 'The path does not support this method' },
  idempotency_conflict: {
    status: 409,
    message: 'The Idempotency-Key was used for another request',
  },
  payload_too_large: { status: 413, message: 'The request body is too large' },
  unsupported_media_type: { status: 415, message: 'The request body must be JSON' },
  expectation_failed: {
    status: 417,
    message: 'The Expect header names something other than 100-continue; leave it out',
  },
  validation_failed: { status: 422, message: 'The request is not valid' },
  verification_failed: { status: 422, message: 'The provider does not accept the configuration' },
  rate_limit_exceeded: { status: 429, message: 'Too many requests' },
  internal_error: { status: 500, message: 'Something went wrong on our side' },
  service_unavailable: { status: 503, message: 'The service cannot reach its database right now' },
} as const;

export type ErrorCode = keyof typeof TABLE;

/** One problem as the client reads it. */
export interface Problem {
  code: ErrorCode;
  message: string;
  suggestion?: string;
  help_link?: string;
}

/**
 * An answer to a client that is not a success. Throw it anywhere below a route; the error handler turns it
 * into the reply.
 */
export class ClientError extends Error {
  readonly code: ErrorCode;
  readonly problems: readonly Problem[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ErrorCode,
    messages: readonly string[] = [],
    headers: Readonly<Record<string, string>> = {},
  ) {
    const said = messages.length > 0 ? messages : [TABLE[code].message];
    super(said.join('; '));
    this.code = code;
    this.headers = headers;
    this.problems = said.map((message) => ({ code, message }));
  }

  get status(): number {
    return TABLE[this.code].status;
  }
}

/** All errors with status and default message, for the reference page and the API description. */
export function allErrors(): { code: ErrorCode; status: number; message: string }[] {
  return Object.entries(TABLE).map(([code, entry]) => ({ code: code as ErrorCode, ...entry }));
}
