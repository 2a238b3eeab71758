/**
 * Every error of the API: code, status and default message. The reference page is generated from here.
 * Statuses and codes follow the contract and, where it is silent, our decisions.
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
  api_key_not_provided: { status: 401, message: 'The API key is missing' },
  incorrect_api_key: { status: 401, message: 'The API key is not that of a project' },
  api_secret_not_provided: { status: 401, message: 'The API secret is missing' },
  api_secret_is_incorrect: { status: 401, message: 'The API secret is not that of the project' },
  user_email_not_provided: {
    status: 401,
    message: 'The user is missing: send the external id or the e-mail address of the user',
  },
  neither_user_hmac_nor_api_secret_provided: {
    status: 401,
    message: 'The HMAC of the user is missing, and the API secret is missing as well',
  },
  hmac_not_a_match: { status: 401, message: 'The HMAC is not that of the user' },
  forbidden: { status: 403, message: 'The token does not permit this operation' },
  not_found: { status: 404, message: 'Not found' },
  method_not_allowed: { status: 405, message: 'The path does not support this method' },
  not_acceptable: {
    status: 406,
    message: 'The Accept header names no type that this path has; send application/json',
  },
  idempotency_conflict: {
    status: 409,
    message: 'The Idempotency-Key was used for another request; use a new key',
  },
  user_deleted: { status: 410, message: 'The user of this stream was deleted' },
  payload_too_large: { status: 413, message: 'The request body is too large' },
  unsupported_media_type: { status: 415, message: 'The request body must be JSON' },
  expectation_failed: {
    status: 417,
    message: 'The Expect header names something other than 100-continue; leave it out',
  },
  validation_failed: { status: 422, message: 'The request is not valid' },
  verification_failed: { status: 422, message: 'The provider does not accept the configuration' },
  rate_limit_exceeded: { status: 429, message: 'Too many requests' },
  internal_error: { status: 500, message: 'The server failed because of an internal error' },
  service_unavailable: { status: 503, message: 'The service cannot reach its database; try again later' },
} as const;

export type ErrorCode = keyof typeof TABLE;

/** One problem in an error response. */
export interface Problem {
  code: ErrorCode;
  message: string;
}

/** An error for the client. Throw it anywhere below a route; the error handler turns it into the response. */
export class ClientError extends Error {
  readonly code: ErrorCode;
  readonly problems: readonly Problem[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ErrorCode,
    messages: readonly string[] = [],
    headers: Readonly<Record<string, string>> = {},
  ) {
    const texts = messages.length > 0 ? messages : [TABLE[code].message];
    super(texts.join('; '));
    this.code = code;
    this.headers = headers;
    this.problems = texts.map((message) => ({ code, message }));
  }

  get status(): number {
    return TABLE[this.code].status;
  }
}

/** All errors with their status and default message, for the reference page and the API description. */
export function allErrors(): { code: ErrorCode; status: number; message: string }[] {
  return Object.entries(TABLE).map(([code, entry]) => ({ code: code as ErrorCode, ...entry }));
}

/** The response header of a node without the role that a request needs. It names the role. */
export const MISSING_ROLE = 'missing-role';
