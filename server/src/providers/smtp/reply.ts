import type { SendOutcome } from '../provider.ts';
import { hasForeignLocalPart } from '../shared/mime.ts';
import { tidy } from '../shared/vendor-words.ts';

/**
 * How the exchange ended: the server's reply to the message, or the error and whether the whole message was
 * out by then.
 */
export type SmtpReply = { response: string } | { error: SmtpError; written: boolean };

/** What nodemailer and node put on their errors. */
export type SmtpError = {
  message: string;
  code?: string;
  /** The system's or TLS's own code, where nodemailer has put its own over it. */
  originalCode?: string;
  response?: string;
  responseCode?: number;
  command?: string;
  /** The recipients that were refused; one at most. */
  rejected?: string[];
};

/** What the ending of an exchange means. Pure. */
export function classify(reply: SmtpReply): SendOutcome {
  if ('response' in reply) return { kind: 'sent', ...queueId(reply.response) };
  const { error, written } = reply;
  if (error.code === 'EGRESS_REFUSED') return { kind: 'rejected', scope: 'config', reason: error.message };
  if (error.code === 'ETLS' || isTlsFailure(error)) return classifyTls(error, written);
  const { response = '', responseCode = 0 } = error;
  if (responseCode >= 400 && responseCode < 600) return classifyResponse(error, responseCode);
  return response === '' ? classifyBreak(error, written) : classifyNonsense(response, written);
}

/** The server has replied, so nothing is ambiguous. */
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
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });

  const forEither = (): SendOutcome => ({
    kind: 'rejected',
    scope: 'message',
    reason,
    code,
    suspect: 'config',
  });

  if (enhanced === '5.2.2' || enhanced === '4.2.2') return retry(MAILBOX_FULL_RETRY_MS);
  if (status < 500 || status === 503) return retry(); // 503: the session went out of step, a new one will not
  const knowsRecipient = isAboutMessage(error) && error.command !== 'MAIL FROM';
  if (LOGIN_STATUS.has(status)) return knowsRecipient ? forEither() : rejected('config');
  if (error.code === 'EAUTH' || !isAboutMessage(error)) return rejected('config');
  if (enhanced === '5.3.4') return rejected('message'); // too big
  if (enhanced === '5.6.7') return rejected('message'); // the recipient needs SMTPUTF8, even if MAIL FROM is rejected
  if (error.command === 'MAIL FROM') return rejected(status === 552 ? 'message' : 'config');
  if (ADDRESS_STATUS.has(enhanced) || status === 556) return rejected('address'); // 556: the domain takes no mail
  if (error.command !== 'RCPT TO') return isAboutSender(enhanced, reason) ? forEither() : rejected('message');
  if (hasForeignLocalPart(error.rejected?.[0] ?? '')) return rejected('address'); // no SMTPUTF8 there
  // A server without enhanced codes says no more than this, and at RCPT it speaks of the recipient.
  if (enhanced === '' && BARE_ADDRESS_STATUS.has(status) && !RELAY_DENIED.test(reason))
    return rejected('address');
  return forEither(); // a server may relay to some recipients and refuse others
}

/** Authentication is required, or failed. */
const LOGIN_STATUS = new Set([530, 534, 535, 538]);
/** A mailbox stays full for hours; trying every few seconds only looks like an attack. */
const MAILBOX_FULL_RETRY_MS = 3_600_000;
/** Unknown mailbox, unknown host, bad syntax, moved, no mail taken, disabled. */
const ADDRESS_STATUS = new Set(['5.1.0', '5.1.1', '5.1.2', '5.1.3', '5.1.6', '5.1.10', '5.2.1']);
const BARE_ADDRESS_STATUS = new Set([550, 551, 553]);
/** Servers word it alike: the account or our address may not send through here at all. */
const RELAY_DENIED =
  /relay|authenticat|client host|not (?:allowed|permitted|authori[sz]ed) to send|5\.7\.[018]\b.*access denied/i;

/**
 * Whether it is our address or account that may not send through here, which a server may also say of some
 * recipients only.
 */
function isAboutSender(enhanced: string, reason: string): boolean {
  return enhanced === '5.1.7' || enhanced === '5.1.8' || RELAY_DENIED.test(reason);
}

/** Whether the server spoke of one message, rather than refusing the session at its greeting or HELO. */
function isAboutMessage({ code }: SmtpError): boolean {
  return code === 'EENVELOPE' || code === 'EMESSAGE' || code === 'ECONNECTION';
}

/**
 * No TLS where it is demanded, or a certificate that does not prove the host: someone has to set it right.
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
      ? `TLS with the mail server failed: ${tidy(error.message)}`
      : `the mail server does not offer STARTTLS: ${tidy(error.response ?? '')}`;
  return { kind: 'rejected', scope: 'config', reason, code };
}

/** Whether TLS failed by itself: a certificate, a version, a cipher. */
export function isTlsFailure({ code, originalCode, message }: SmtpError): boolean {
  const cause = originalCode ?? code ?? '';
  return (
    /^(?:ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH|INVALID_CA|EPROTO$)/.test(
      cause,
    ) || /\bcertificate\b|SSL routines/i.test(code === 'ETLS' ? message : '')
  );
}

/**
 * A response that is not SMTP. It is no rejection: a server that talks like that has rejected nothing,
 * and may have taken all.
 */
function classifyNonsense(response: string, written: boolean): SendOutcome {
  const reason = `the mail server responded with something that is not SMTP: ${tidy(response)}`;
  return { kind: 'retry', reason, code: 'EPROTOCOL', ambiguous: written, suspect: 'config' };
}

/** There was no reply. It is ambiguous only if the connection broke after the whole message was sent. */
function classifyBreak(error: SmtpError, written: boolean): SendOutcome {
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
    reason: BREAKS[code] ?? `no response from the mail server: ${tidy(error.message)}`,
    code,
    ambiguous: written,
    ...suspect,
  };
}

const SUSPECT_CONFIG = new Set(['ENOTFOUND', 'ECONNREFUSED']);

const BREAKS: Record<string, string> = {
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

/** `550-5.1.1 No such user` → the code, its enhanced part and the words of all lines in one. */
function parseResponse(response: string, status: number): { enhanced: string; reason: string; code: string } {
  const enhanced = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(response)?.[1] ?? '';
  return {
    enhanced,
    reason: tidy(response),
    code: enhanced === '' ? String(status) : `${status} ${enhanced}`,
  };
}

/** Postfix, Exim and their like name the message in their own log: `250 2.0.0 Ok: queued as 4XyZ`. */
function queueId(response: string): { providerId?: string } {
  const id = /\b(?:queued as|id=)\s*([\w.-]{1,64})/i.exec(response.slice(0, 500))?.[1];
  return id === undefined ? {} : { providerId: id };
}
