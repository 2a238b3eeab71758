import type { SendOutcome } from '../provider.ts';
import type { HttpError } from './http-error.ts';
import { tlsProblem } from './tls-problem.ts';
import type { HttpResponse, HttpResult } from './transport.ts';
import { errorMessageIn, parseObject, tidy } from './vendor-text.ts';

/** A vendor's response, parsed for `meaning`. */
export type ParsedResponse = {
  status: number;
  headers: HttpResponse['headers'];
  text: string;
  /** The parsed body; an empty object if the body is not a JSON object. */
  json: object;
  /** The failure as one short line for people, with the vendor's own message. */
  reason: string;
};

/**
 * Returns the outcome of a request. `meaning` knows the vendor: it recognises success and the vendor's own
 * error codes. If it returns undefined, the status decides: 401 and 403 blame the config; 408, 425, 429 and
 * 5xx are retried; other 4xx blame the message. After 502, 504 and a success that `meaning` did not
 * recognise, the vendor may have the message: the retry is ambiguous.
 */
export function httpOutcome(
  response: HttpResult,
  vendor: string,
  meaning: (parsed: ParsedResponse) => SendOutcome | undefined,
): SendOutcome {
  if ('error' in response) return noResponse(response, vendor);
  const parsed = new ResponseReader(response, vendor);
  return meaning(parsed) ?? byStatus(parsed);
}

/** A class, because a getter in an object literal takes longer than all the rest of a success. */
class ResponseReader implements ParsedResponse {
  readonly status: number;
  readonly headers: HttpResponse['headers'];
  readonly text: string;
  readonly json: object;
  readonly #vendor: string;
  #reason: string | undefined;

  constructor({ status, headers, text }: HttpResponse, vendor: string) {
    this.status = status;
    this.headers = headers;
    this.text = text;
    this.json = parseObject(text);
    this.#vendor = vendor;
  }

  /** Computed on demand, because a success needs no reason. */
  get reason(): string {
    this.#reason ??= reasonOf(this, this.#vendor);
    return this.#reason;
  }
}

function reasonOf(response: HttpResponse & { json: object }, vendor: string): string {
  const words = tidy(errorMessageIn(response.json) ?? textOf(response));
  return `${vendor} responded with ${response.status}${words === '' ? '' : `: ${words}`}`;
}

/**
 * Returns the outcome when there was no response. A retry is safe if the request was not written; otherwise
 * the request may have arrived.
 */
function noResponse({ error, written }: { error: HttpError; written: boolean }, vendor: string): SendOutcome {
  const { code } = error;
  const reason = reasonOfError(error, vendor);
  if (isRejectedAddress(error)) return { kind: 'rejected', scope: 'config', reason, code };
  return {
    kind: 'retry',
    reason,
    code,
    ambiguous: written,
    ...(isTlsErrorCode(code) || code === 'ENOTFOUND' || code === 'ECONNREFUSED' ? { suspect: 'config' } : {}),
  };
}

/** Returns why there was no response, as one short line for people. */
export function reasonOfError(error: HttpError, vendor: string): string {
  const { code, message } = error;
  if (isRejectedAddress(error)) return tidy(message);
  const reason = isTlsErrorCode(code)
    ? `TLS with ${vendor} failed: ${tlsProblem(error)}`
    : NETWORK_ERRORS[code];
  return tidy(reason?.replace('<vendor>', () => vendor) ?? `no response from ${vendor}: ${message}`);
}

/** Whether no request can be sent to the address. The message says why. */
function isRejectedAddress({ code }: HttpError): boolean {
  return code === 'EGRESS_REFUSED' || code === 'ERR_INVALID_URL';
}

/** Whether a code means that TLS failed: the certificate does not prove the host, or there is no TLS. */
export function isTlsErrorCode(code: string): boolean {
  // language-ignore: a single regular expression
  return /^(?:ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH|INVALID_CA|EPROTO$)/.test(
    code,
  );
}

const NETWORK_ERRORS: Readonly<Record<string, string>> = {
  ENOTFOUND: 'the host name of <vendor> does not resolve',
  EAI_AGAIN: 'the name server did not respond',
  ECONNREFUSED: '<vendor> refused the connection',
  EHOSTUNREACH: '<vendor> cannot be reached',
  ENETUNREACH: '<vendor> cannot be reached',
  ECONNRESET: '<vendor> broke the connection',
  EPIPE: '<vendor> broke the connection',
  UND_ERR_SOCKET: '<vendor> broke the connection',
  ETIMEDOUT: '<vendor> did not respond in time',
  UND_ERR_HEADERS_TIMEOUT: '<vendor> did not respond in time',
  UND_ERR_BODY_TIMEOUT: '<vendor> did not respond in time',
  CLOSED: 'the server is stopping',
};

function byStatus(parsed: ParsedResponse): SendOutcome {
  const { status, reason } = parsed;
  if (status === 401 || status === 403) return rejected('config', parsed);
  if (status === 408 || status === 425 || status === 429) return retry(parsed);
  if (status >= 500) return retry(parsed, { ambiguous: status === 502 || status === 504 });
  if (status >= 400) return rejected('message', parsed);
  if (status >= 300)
    return rejected('config', { ...parsed, reason: `${reason}: redirects are not followed` });
  return retry(
    { ...parsed, reason: `${reason}, so it is unknown whether the message was accepted` },
    { ambiguous: true },
  );
}

/** The vendor rejected the message for good. `code` is the vendor's own error code, if it has one. */
export function rejected(
  scope: 'message' | 'address' | 'config',
  { status, reason }: Pick<ParsedResponse, 'status' | 'reason'>,
  code = String(status),
): SendOutcome {
  return { kind: 'rejected', scope, reason, code };
}

/** Rejected because of a wrong setting or because of this recipient: see `SendOutcome`. */
export function rejectedForEither(
  { status, reason }: Pick<ParsedResponse, 'status' | 'reason'>,
  code = String(status),
): SendOutcome {
  return { kind: 'rejected', scope: 'message', reason, code, suspect: 'config' };
}

/** Retried later: after `retryAfterMs`, by default the vendor's `Retry-After`. */
export function retry(
  parsed: Pick<ParsedResponse, 'status' | 'reason' | 'headers'>,
  {
    code = String(parsed.status),
    ambiguous = false,
    retryAfterMs = retryAfter(parsed.headers),
  }: { code?: string; ambiguous?: boolean; retryAfterMs?: number | undefined } = {},
): SendOutcome {
  const { reason } = parsed;
  return {
    kind: 'retry',
    reason,
    code,
    ambiguous,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs: clamped(retryAfterMs) }),
  };
}

/**
 * Returns the delay of `Retry-After` in milliseconds, at most an hour. A date is relative to the vendor's own
 * `Date`.
 */
export function retryAfter(headers: HttpResponse['headers']): number | undefined {
  const wish = headers['retry-after']?.trim() ?? '';
  if (/^\d{1,12}(?:\.\d*)?$/.test(wish)) return clamped(Number(wish) * 1000);
  return untilDate(httpDate(wish), headers);
}

/**
 * Returns the milliseconds from the vendor's response until `atMs`, at most an hour; undefined if either time
 * is unknown.
 */
export function untilDate(atMs: number, { date }: HttpResponse['headers']): number | undefined {
  const wait = atMs - httpDate(date ?? '');
  return Number.isNaN(wait) ? undefined : clamped(wait);
}

/**
 * Parses a date of HTTP or e-mail into unix milliseconds; NaN if it is none. `Date.parse` alone accepts `-1`.
 */
export function httpDate(text: string): number {
  return /^[a-z]{3}, \d{1,2} [a-z]{3} \d{4} \d\d:\d\d:\d\d (?:GMT|UTC|[+-]\d{4})$/i.test(text)
    ? Date.parse(text)
    : Number.NaN;
}

const LONGEST_WAIT_MS = 3_600_000; // a longer delay is probably a mistake of the vendor

function clamped(ms: number): number {
  return Math.min(LONGEST_WAIT_MS, Math.max(0, Math.round(ms)));
}

/** Returns the body if it is text for people; empty for an HTML page. */
function textOf({ text, headers }: HttpResponse): string {
  return /html/i.test(headers['content-type'] ?? '') || /^\s*</.test(text) ? '' : text;
}
