import type { SendOutcome } from '../provider.ts';
import { isTlsErrorCode } from '../shared/http-outcome.ts';
import { hasForeignLocalPart } from '../shared/mime.ts';
import { tlsProblem } from '../shared/tls-problem.ts';
import { tidy } from '../shared/vendor-text.ts';

/**
 * The result of an SMTP transaction: the server's reply to the message, or an error. `written` is whether the
 * whole message had been sent by then.
 */
export type SmtpReply = { response: string } | { error: SmtpError; written: boolean };

/** An error of nodemailer or node. */
export type SmtpError = {
  message: string;
  code?: string;
  /** The code of the system or of TLS, if nodemailer has replaced it by its own. */
  originalCode?: string;
  response?: string;
  responseCode?: number;
  command?: string;
  /** The rejected recipients; at most one. */
  rejected?: string[];
};

/** Returns the outcome of an SMTP transaction. Pure. */
export function classify(reply: SmtpReply): SendOutcome {
  if ('response' in reply) return { kind: 'sent', ...queueId(reply.response) };
  const { error, written } = reply;
  if (error.code === 'EGRESS_REFUSED')
    return { kind: 'rejected', scope: 'config', reason: error.message, code: error.code };
  if (error.code === 'ETLS' || isTlsFailure(error)) return classifyTls(error, written);
  const { response = '', responseCode = 0 } = error;
  if (responseCode >= 400 && responseCode < 600) return classifyResponse(error, responseCode);
  return response === '' ? classifyNoReply(error, written) : classifyInvalidReply(response, written);
}

/** Whether the server has responded, with whatever status. */
export function hasServerReply(reply: SmtpReply): boolean {
  return 'response' in reply || (reply.error.responseCode ?? 0) > 0;
}

/** Whether the server did not respond in time. */
export function hasTimedOut(reply: SmtpReply): boolean {
  if ('response' in reply) return false;
  const { code, originalCode } = reply.error;
  return code === 'EABORT' || (originalCode ?? code) === 'ETIMEDOUT';
}

/** Common wordings for: this client or account has too many connections. */
const TOO_MANY_CONNECTIONS =
  // language-ignore: a single regular expression
  /\b(?:concurrent|simultaneous)\b.{0,30}\bconnections?\b|\btoo many connections\b|\b(?:connections?|thread) limit\b/i;

/** Whether the server rejected the message because there are too many connections. */
export function hasTooManyConnections(reply: SmtpReply): boolean {
  if ('response' in reply) return false;
  const { response = '', responseCode = 0 } = reply.error;
  return responseCode >= 400 && responseCode < 500 && TOO_MANY_CONNECTIONS.test(response.slice(0, 1_000));
}

/** Classifies an error reply. The server has replied, so the outcome is never ambiguous. */
function classifyResponse(error: SmtpError, status: number): SendOutcome {
  const { enhanced, reason, code } = parseResponse(error.response ?? '', status);
  const rejected = (scope: 'message' | 'address' | 'config'): SendOutcome => ({
    kind: 'rejected',
    scope,
    reason,
    code,
  });
  const retry = (retryAfterMs?: number): SendOutcome => ({
    kind: 'retry',
    reason,
    code,
    ambiguous: false,
    retryAfterMs,
  });

  const forEither = (): SendOutcome => ({
    kind: 'rejected',
    scope: 'message',
    reason,
    code,
    suspect: 'config',
  });

  if (enhanced === '5.2.2' || enhanced === '4.2.2') return retry(MAILBOX_FULL_RETRY_MS);
  if (enhanced === '5.4.5' || DAILY_LIMIT.test(reason)) return retry(DAILY_LIMIT_RETRY_MS);
  if (status < 500 || status === 503) return retry(); // 503: wrong command sequence, a new session will work
  const knowsRecipient = isAboutMessage(error) && error.command !== 'MAIL FROM';
  if (LOGIN_STATUS.has(status)) return knowsRecipient ? forEither() : rejected('config');
  if (error.code === 'EAUTH' || !isAboutMessage(error)) return rejected('config');
  if (enhanced === '5.3.4') return rejected('message'); // too big
  if (enhanced === '5.6.7') return rejected('message'); // the recipient needs SMTPUTF8, also after MAIL FROM
  if (error.command === 'MAIL FROM') return rejected(status === 552 ? 'message' : 'config');
  // 556: the domain accepts no mail.
  if (ADDRESS_STATUS.has(enhanced) || status === 556) return rejected('address');
  if (error.command !== 'RCPT TO') return isAboutSender(enhanced, reason) ? forEither() : rejected('message');
  if (hasForeignLocalPart(error.rejected?.[0] ?? '')) return rejected('address'); // the server lacks SMTPUTF8
  // Without an enhanced code, such a status in reply to RCPT TO means the recipient.
  if (enhanced === '' && BARE_ADDRESS_STATUS.has(status) && !RELAY_DENIED.test(reason))
    return rejected('address');
  return forEither(); // a server may relay to some recipients only
}

/** Authentication is required, or failed. */
const LOGIN_STATUS = new Set([530, 534, 535, 538]);
/** A mailbox stays full for hours; frequent retries look like an attack. */
const MAILBOX_FULL_RETRY_MS = 3_600_000;
/**
 * Wordings of Google and Microsoft for: the account has sent as much as it may in a day. They use permanent
 * statuses for it, but accept e-mails later, and another integration may have room now.
 */
const DAILY_LIMIT =
  /\b(?:daily|sending|relay)\b.{0,40}\b(?:limit|quota)\b.{0,20}\bexceeded\b|SubmissionQuotaExceeded/i;
const DAILY_LIMIT_RETRY_MS = 3_600_000;
/** Unknown mailbox, unknown host, bad syntax, moved, accepts no mail, disabled. */
const ADDRESS_STATUS = new Set(['5.1.0', '5.1.1', '5.1.2', '5.1.3', '5.1.6', '5.1.10', '5.2.1']);
const BARE_ADDRESS_STATUS = new Set([550, 551, 553]);
/** Common wordings for: the account or the sender address may not send through this server. */
const RELAY_DENIED =
  // language-ignore: a single regular expression
  /relay|authenticat|client host|not (?:allowed|permitted|authori[sz]ed) to send|5\.7\.[018]\b.*access denied/i;

/**
 * Whether the reply blames the sender's address or account. A server may reject them for some recipients
 * only.
 */
function isAboutSender(enhanced: string, reason: string): boolean {
  return enhanced === '5.1.7' || enhanced === '5.1.8' || RELAY_DENIED.test(reason);
}

/** Whether the reply concerns one message, not the session (greeting or HELO). */
function isAboutMessage({ code }: SmtpError): boolean {
  return code === 'EENVELOPE' || code === 'EMESSAGE' || code === 'ECONNECTION';
}

/**
 * Classifies a TLS failure: the server lacks required TLS, or its certificate does not prove the host.
 * Someone has to fix the config.
 */
function classifyTls(error: SmtpError, written: boolean): SendOutcome {
  const code = error.originalCode ?? error.code ?? 'ETLS';
  if (error.responseCode !== undefined && error.responseCode < 500)
    return classifyResponse(error, error.responseCode);
  if (error.responseCode === undefined && !isTlsFailure(error)) {
    return {
      kind: 'retry',
      reason: 'the connection broke while TLS was being set up',
      code,
      ambiguous: written,
      suspect: 'config',
    };
  }
  const reason =
    error.responseCode === undefined
      ? `TLS with the mail server failed: ${tidy(tlsProblem({ code, message: error.message }))}`
      : `the mail server does not offer STARTTLS: ${tidy(error.response ?? '')}`;
  return { kind: 'rejected', scope: 'config', reason, code };
}

/** Whether TLS itself failed: a certificate, a version, a cipher. */
export function isTlsFailure({ code, originalCode, message }: SmtpError): boolean {
  return (
    isTlsErrorCode(originalCode ?? code ?? '') ||
    (code === 'ETLS' && /\bcertificate\b|SSL routines/i.test(message))
  );
}

/** Classifies a reply that is not SMTP. It is no rejection, and the server may have accepted the message. */
function classifyInvalidReply(response: string, written: boolean): SendOutcome {
  const reason = `the mail server responded with something that is not SMTP: ${tidy(response)}`;
  return { kind: 'retry', reason, code: 'EPROTOCOL', ambiguous: written, suspect: 'config' };
}

/** Classifies a failure without a reply. It is ambiguous only if the whole message had been sent. */
function classifyNoReply(error: SmtpError, written: boolean): SendOutcome {
  const code = error.originalCode ?? error.code ?? 'UNKNOWN';
  if (error.code === 'EENVELOPE') {
    const scope = /recipient/i.test(error.message) ? 'address' : 'config';
    return { kind: 'rejected', scope, reason: tidy(error.message), code };
  }
  if (error.code === 'EMESSAGE')
    return { kind: 'rejected', scope: 'message', reason: tidy(error.message), code };
  if (error.code === 'EAUTH') return { kind: 'rejected', scope: 'config', reason: tidy(error.message), code };
  const suspect = SUSPECT_CONFIG.has(code) ? { suspect: 'config' as const } : {};
  return {
    kind: 'retry',
    reason: NETWORK_ERRORS[code] ?? `no response from the mail server: ${tidy(error.message)}`,
    code,
    ambiguous: written,
    ...suspect,
  };
}

const SUSPECT_CONFIG = new Set(['ENOTFOUND', 'ECONNREFUSED']);

const NETWORK_ERRORS: Record<string, string> = {
  ENOTFOUND: 'the host name of the mail server does not resolve',
  EAI_AGAIN: 'the name server did not respond',
  ECONNREFUSED: 'the mail server refused the connection',
  EHOSTUNREACH: 'the mail server cannot be reached',
  ENETUNREACH: 'the mail server cannot be reached',
  ECONNRESET: 'the mail server broke the connection',
  EPIPE: 'the mail server broke the connection',
  ECONNECTION: 'the mail server closed the connection',
  ETIMEDOUT: 'the mail server did not respond in time',
  EABORT: 'the mail server did not respond in time',
};

/** Parses `550-5.1.1 No such user` into its code, the enhanced code and the text of all lines. */
function parseResponse(response: string, status: number): { enhanced: string; reason: string; code: string } {
  const enhanced = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(response)?.[1] ?? '';
  return {
    enhanced,
    reason: tidy(response),
    code: enhanced === '' ? String(status) : `${status} ${enhanced}`,
  };
}

/** Returns the queue id that Postfix, Exim and similar servers report: `250 2.0.0 Ok: queued as 4XyZ`. */
function queueId(response: string): { providerId?: string } {
  const id = /\b(?:queued as|id=)\s*([\w.-]{1,64})/i.exec(response.slice(0, 500))?.[1];
  return id === undefined ? {} : { providerId: id };
}
