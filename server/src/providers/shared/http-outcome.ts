import type { SendOutcome } from '../provider.ts';
import type { HttpAnswer, HttpError, HttpReply } from './transport.ts';
import { objectIn, tidy, wordsIn } from './vendor-words.ts';

/** What a vendor answered, for who knows what it means. */
export type Said = {
  status: number;
  headers: HttpReply['headers'];
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
  answer: HttpAnswer,
  vendor: string,
  meaning: (said: Said) => SendOutcome | undefined,
): SendOutcome {
  if ('error' in answer) return unanswered(answer, vendor);
  const said = new Answered(answer, vendor);
  return meaning(said) ?? byStatus(said);
}

/** A class, because a getter in a literal takes more than all the rest of a success. */
class Answered implements Said {
  readonly status: number;
  readonly headers: HttpReply['headers'];
  readonly text: string;
  readonly json: object;
  readonly #vendor: string;
  #reason: string | undefined;

  constructor({ status, headers, text }: HttpReply, vendor: string) {
    this.status = status;
    this.headers = headers;
    this.text = text;
    this.json = objectIn(text);
    this.#vendor = vendor;
  }

  /** Made when it is asked for: nobody wants it of a success, which most answers are. */
  get reason(): string {
    this.#reason ??= reasonOf(this, this.#vendor);
    return this.#reason;
  }
}

function reasonOf(answer: HttpReply & { json: object }, vendor: string): string {
  const words = tidy(wordsIn(answer.json) ?? textOf(answer));
  return `${vendor} answered ${answer.status}${words === '' ? '' : `: ${words}`}`;
}

/**
 * Nobody answered. Before the request was written it is safe to repeat it; afterwards it may have arrived.
 */
function unanswered({ error, written }: { error: HttpError; written: boolean }, vendor: string): SendOutcome {
  const { code, message } = error;
  if (code === 'EGRESS_REFUSED' || code === 'ERR_INVALID_URL')
    return { kind: 'rejected', scope: 'config', reason: tidy(message), code };
  const isTls = isTlsFailure(error);
  const reason = isTls ? `TLS with ${vendor} failed: ${message}` : BREAKS[code];
  return {
    kind: 'retry',
    reason: tidy(reason?.replace('<vendor>', vendor) ?? `no answer from ${vendor}: ${message}`),
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
  EAI_AGAIN: 'the name server did not answer',
  ECONNREFUSED: '<vendor> refused the connection',
  EHOSTUNREACH: '<vendor> cannot be reached',
  ENETUNREACH: '<vendor> cannot be reached',
  ECONNRESET: '<vendor> broke the connection',
  EPIPE: '<vendor> broke the connection',
  UND_ERR_SOCKET: '<vendor> broke the connection',
  ETIMEDOUT: '<vendor> did not answer in time',
  UND_ERR_HEADERS_TIMEOUT: '<vendor> did not answer in time',
  UND_ERR_BODY_TIMEOUT: '<vendor> did not answer in time',
  CLOSED: 'the server is stopping',
};

function byStatus(said: Said): SendOutcome {
  const { status, reason } = said;
  if (status === 401 || status === 403) return rejected('config', said);
  if (status === 408 || status === 425 || status === 429) return retry(said);
  if (status >= 500) return retry(said, { ambiguous: status === 502 || status === 504 });
  if (status >= 400) return rejected('message', said);
  if (status >= 300) return rejected('config', { ...said, reason: `${reason}: redirects are not followed` });
  return retry({ ...said, reason: `${reason}, which is no answer to a message` }, { ambiguous: true });
}

/** The vendor will not take it, now or later. `code` is the vendor's own word, where it has one. */
export function rejected(
  scope: 'message' | 'address' | 'config',
  { status, reason }: Pick<Said, 'status' | 'reason'>,
  code = String(status),
): SendOutcome {
  return { kind: 'rejected', scope, reason, code };
}

/** The vendor will not take it, because of a wrong setting or because of this recipient: see `SendOutcome`. */
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
function retryAfter(headers: HttpReply['headers']): number | undefined {
  const wish = headers['retry-after']?.trim() ?? '';
  if (/^\d{1,12}(?:\.\d*)?$/.test(wish)) return clamped(Number(wish) * 1000);
  return untilDate(httpDate(wish), headers);
}

/**
 * Milliseconds from the moment that the vendor answered until a moment that it named; undefined where either
 * is not known.
 */
export function untilDate(atMs: number, { date }: HttpReply['headers']): number | undefined {
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

const LONGEST_WAIT_MS = 3_600_000; // a vendor that asks for more is asked again all the same: it may have erred

function clamped(ms: number): number {
  return Math.min(LONGEST_WAIT_MS, Math.max(0, Math.round(ms)));
}

/** A text answer for people; not a whole page. */
function textOf({ text, headers }: HttpReply): string {
  return /html/i.test(headers['content-type'] ?? '') || /^\s*</.test(text) ? '' : text;
}
