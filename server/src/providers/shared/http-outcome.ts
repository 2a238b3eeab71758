import type { SendOutcome } from '../provider.ts';
import type { HttpError, HttpResponse, HttpResult } from './transport.ts';
import { objectIn, tidy, wordsIn } from './vendor-words.ts';

/** A vendor's response, for the provider that knows its meaning. */
export type Said = {
  status: number;
  headers: HttpResponse['headers'];
  text: string;
  /** The body; an empty object where it is no JSON object. */
  json: object;
  /** What the vendor says of it, for people: one short line. */
  reason: string;
};

/**
 * How an exchange ended. `meaning` knows the vendor: it says what success is and names the errors that mean
 * something there. The rest has the meaning that its status has everywhere: 401 and 403 blame the config,
 * 408, 425, 429 and 5xx pass, other 4xx blame the message. 502 and 504 leave open whether the vendor has it;
 * so does a success that `meaning` did not recognise.
 */
export function httpOutcome(
  response: HttpResult,
  vendor: string,
  meaning: (said: Said) => SendOutcome | undefined,
): SendOutcome {
  if ('error' in response) return noResponse(response, vendor);
  const said = new ResponseReader(response, vendor);
  return meaning(said) ?? byStatus(said);
}

/** A class, because a getter in a literal takes more than all the rest of a success. */
class ResponseReader implements Said {
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
    this.json = objectIn(text);
    this.#vendor = vendor;
  }

  /** Made on demand: a success, which most responses are, needs none. */
  get reason(): string {
    this.#reason ??= reasonOf(this, this.#vendor);
    return this.#reason;
  }
}

function reasonOf(response: HttpResponse & { json: object }, vendor: string): string {
  const words = tidy(wordsIn(response.json) ?? textOf(response));
  return `${vendor} responded with ${response.status}${words === '' ? '' : `: ${words}`}`;
}

/**
 * There was no response. Before the request was written a retry is safe; afterwards it may have arrived.
 */
function noResponse({ error, written }: { error: HttpError; written: boolean }, vendor: string): SendOutcome {
  const { code, message } = error;
  if (code === 'EGRESS_REFUSED' || code === 'ERR_INVALID_URL')
    return { kind: 'rejected', scope: 'config', reason: tidy(message), code };
  const isTls = isTlsFailure(error);
  const reason = isTls ? `TLS with ${vendor} failed: ${message}` : BREAKS[code];
  return {
    kind: 'retry',
    reason: tidy(reason?.replace('<vendor>', vendor) ?? `no response from ${vendor}: ${message}`),
    code,
    ambiguous: written,
    ...(isTls || code === 'ENOTFOUND' || code === 'ECONNREFUSED' ? { suspect: 'config' } : {}),
  };
}

/** A certificate that does not prove the host, or no TLS at all. */
export function isTlsFailure({ code }: HttpError): boolean {
  return /^(?:ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH|INVALID_CA|EPROTO$)/.test(
    code,
  );
}

const BREAKS: Readonly<Record<string, string>> = {
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

function byStatus(said: Said): SendOutcome {
  const { status, reason } = said;
  if (status === 401 || status === 403) return rejected('config', said);
  if (status === 408 || status === 425 || status === 429) return retry(said);
  if (status >= 500) return retry(said, { ambiguous: status === 502 || status === 504 });
  if (status >= 400) return rejected('message', said);
  if (status >= 300) return rejected('config', { ...said, reason: `${reason}: redirects are not followed` });
  return retry(
    { ...said, reason: `${reason}, which does not tell whether the message was accepted` },
    { ambiguous: true },
  );
}

/** The vendor will not take it, now or later. `code` is the vendor's own word, where it has one. */
export function rejected(
  scope: 'message' | 'address' | 'config',
  { status, reason }: Pick<Said, 'status' | 'reason'>,
  code = String(status),
): SendOutcome {
  return { kind: 'rejected', scope, reason, code };
}

/** Rejected because of a wrong setting or because of this recipient: see `SendOutcome`. */
export function rejectedForEither(
  { status, reason }: Pick<Said, 'status' | 'reason'>,
  code = String(status),
): SendOutcome {
  return { kind: 'rejected', scope: 'message', reason, code, suspect: 'config' };
}

/** The vendor may take it later: when it says, or when `retryAfterMs` says. */
export function retry(
  said: Pick<Said, 'status' | 'reason' | 'headers'>,
  {
    code = String(said.status),
    ambiguous = false,
    retryAfterMs = retryAfter(said.headers),
  }: { code?: string; ambiguous?: boolean; retryAfterMs?: number | undefined } = {},
): SendOutcome {
  const { reason } = said;
  return {
    kind: 'retry',
    reason,
    code,
    ambiguous,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs: clamped(retryAfterMs) }),
  };
}

/**
 * What `Retry-After` asks for, in milliseconds: seconds, or a date, which is counted from the vendor's own
 * `Date`.
 */
function retryAfter(headers: HttpResponse['headers']): number | undefined {
  const wish = headers['retry-after']?.trim() ?? '';
  if (/^\d{1,12}(?:\.\d*)?$/.test(wish)) return clamped(Number(wish) * 1000);
  return untilDate(httpDate(wish), headers);
}

/**
 * Milliseconds from the vendor's response until a moment that it named; undefined where either
 * is not known.
 */
export function untilDate(atMs: number, { date }: HttpResponse['headers']): number | undefined {
  const wait = atMs - httpDate(date ?? '');
  return Number.isNaN(wait) ? undefined : clamped(wait);
}

/**
 * A moment as HTTP and e-mail write it, in unix milliseconds; else NaN. `Date.parse` alone sees a date in
 * `-1`.
 */
export function httpDate(text: string): number {
  return /^[a-z]{3}, \d{1,2} [a-z]{3} \d{4} \d\d:\d\d:\d\d (?:GMT|UTC|[+-]\d{4})$/i.test(text)
    ? Date.parse(text)
    : Number.NaN;
}

const LONGEST_WAIT_MS = 3_600_000; // a vendor that asks for more may have erred

function clamped(ms: number): number {
  return Math.min(LONGEST_WAIT_MS, Math.max(0, Math.round(ms)));
}

/** A text response for people; not a whole page. */
function textOf({ text, headers }: HttpResponse): string {
  return /html/i.test(headers['content-type'] ?? '') || /^\s*</.test(text) ? '' : text;
}
