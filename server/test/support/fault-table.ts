/**
 * Whatever may go wrong between a provider and its vendor, and how the send has to end then. One table for
 * all providers: each suite (provider-conformance.ts for HTTP/1.1 and HTTP/2, smtp-faults.ts for SMTP) knows
 * how to bring a fault about, none says what it means.
 *
 * `retry`, not ambiguous: nothing was sent, or the vendor said that it did not take it. Ambiguous: it may
 * have been taken.
 */
const LATER = { kind: 'retry', ambiguous: false } as const;
const DOUBT = { kind: 'retry', ambiguous: true } as const;
const SENT = { kind: 'sent' } as const;

/**
 * Whose fault an error can be. `destination`: also a single recipient's, so it never stops the integration
 * for others by itself. `integration`: nobody's but the config's, so it stops all. `vendor`: the vendor's or
 * the network's, which passes.
 */
export type Blame = 'destination' | 'integration' | 'vendor';

export const FAULTS = {
  // Before the request was written nothing can have been sent.
  'connection refused': LATER,
  'timeout before the write': LATER,
  'bad TLS': LATER,
  // Afterwards it may have been, unless the vendor answers.
  'timeout after the write': DOUBT,
  'slow body': DOUBT,
  reset: DOUBT,
  'half-closed': DOUBT,
  'half-closed within the answer': DOUBT,
  // The other side speaks another protocol: whether it took the request for anything depends on the protocol.
  'another protocol': { kind: 'retry' },

  // The vendor says that it did not take it, and perhaps when to come again; at the latest after an hour.
  '429': { ...LATER, retryAfterMs: undefined },
  '429 with Retry-After in seconds': { ...LATER, retryAfterMs: 7_000 },
  '429 with Retry-After as a date': { ...LATER, retryAfterMs: 90_000 },
  '429 with Retry-After of a day': { ...LATER, retryAfterMs: 3_600_000 },
  '429 with Retry-After that is none': { ...LATER, retryAfterMs: undefined },
  '500': LATER,
  '503': LATER,
  '503 with Retry-After in seconds': { ...LATER, retryAfterMs: 7_000 },
  // A gateway says that it does not know.
  '502': DOUBT,
  '504': DOUBT,
  // No redirect is followed: where a message goes is for the config to say.
  'a redirect': { kind: 'rejected', scope: 'config' }, // the only one here that is the integration's fault; the others are the vendor's

  // A success that is not the vendor's: by something in between, or by a vendor that has lost its mind.
  'garbage body': DOUBT,
  'a page as body': DOUBT,
  'wrong content type': SENT,
} as const satisfies Record<string, Expected>;

export type FaultName = keyof typeof FAULTS;
/** Members of an outcome; `undefined` where it must not be there. */
export type Expected = {
  kind: 'sent' | 'retry' | 'rejected' | 'token_gone';
  ambiguous?: boolean;
  retryAfterMs?: number | undefined;
  scope?: 'message' | 'address' | 'config' | 'token';
};
export const FAULT_NAMES = Object.keys(FAULTS) as FaultName[];

const fcm = (status: number, word: string, errorCode?: string) =>
  answer(status, {
    error: { status: word, ...(errorCode === undefined ? {} : { details: [{ errorCode }] }) },
  });
const ticket = (error: string) => answer(200, { data: [{ status: 'error', details: { error } }] });
const ses = (status: number, type: string, message = '') =>
  answer(status, { message }, { 'x-amzn-errortype': type });
const smtp = (command: 'MAIL FROM' | 'RCPT TO' | 'DATA', response: string) => ({
  error: {
    message: '',
    code: command === 'DATA' ? 'EMESSAGE' : 'EENVELOPE',
    command,
    response,
    responseCode: Number(response.slice(0, 3)),
  },
  written: false,
});
const login = (response: string) => ({
  error: { message: '', code: 'EAUTH', response, responseCode: Number(response.slice(0, 3)) },
  written: false,
});

function answer(status: number, body: unknown = '', headers: Record<string, string> = {}) {
  return { status, headers, text: typeof body === 'string' ? body : JSON.stringify(body) };
}

/**
 * What each vendor says when it refuses a message because of a setting, and whose fault that can be. Errors
 * that are about the message, the address or the token alone are in the suites of the providers: they blame
 * nobody else.
 */
export const REFUSALS: Record<string, readonly (readonly [what: string, reply: unknown, blame: Blame])[]> = {
  twilio: [
    ...[20003, 20008, 20404, 21212, 21603].map(
      (code) => [`${code}`, answer(400, { code }), 'integration'] as const,
    ),
    ...[21408, 21606, 21608, 21612, 21659].map(
      (code) => [`${code}`, answer(400, { code }), 'destination'] as const,
    ),
    ['401', answer(401), 'integration'],
    ['403 with a code', answer(403, { code: 29999 }), 'destination'],
    ['404 without a code', answer(404), 'integration'],
    ['429 20429', answer(429, { code: 20429 }), 'vendor'],
    ['21611', answer(400, { code: 21611 }), 'vendor'],
  ],
  sendgrid: [
    ['401', answer(401), 'integration'],
    ['402', answer(402), 'integration'],
    ['403', answer(403, { errors: [{ field: 'from' }] }), 'integration'],
    ['403 about the recipient', answer(403, { errors: [{ field: 'personalizations.0.to' }] }), 'destination'],
    ['maximum credits', answer(400, { errors: [{ message: 'Maximum credits exceeded' }] }), 'integration'],
    ['429', answer(429), 'vendor'],
  ],
  mailgun: [
    ['401', answer(401, 'Forbidden'), 'integration'],
    ['402', answer(402), 'integration'],
    ['403', answer(403, { message: 'add the address to authorized recipients' }), 'destination'],
    ['404', answer(404, { message: 'Domain not found' }), 'integration'],
    ['400 from', answer(400, { message: "'from' parameter is not valid" }), 'integration'],
    ['400 not allowed', answer(400, { message: 'Domain sandbox is not allowed to send' }), 'destination'],
    ['429', answer(429), 'vendor'],
  ],
  ses: [
    ...[
      'SignatureDoesNotMatch',
      'InvalidClientTokenId',
      'UnrecognizedClientException',
      'ExpiredTokenException',
    ].map((type) => [type, ses(403, type), 'integration'] as const),
    ...[
      'AccountSuspendedException',
      'MailFromDomainNotVerifiedException',
      'NotFoundException',
      'SendingPausedException',
    ].map((type) => [type, ses(400, type), 'integration'] as const),
    ['AccessDeniedException', ses(403, 'AccessDeniedException'), 'destination'],
    [
      'MessageRejected: not verified',
      ses(400, 'MessageRejected', 'Email address is not verified'),
      'destination',
    ],
    ['TooManyRequestsException', ses(429, 'TooManyRequestsException'), 'vendor'],
  ],
  smtp: [
    ['535 at login', login('535 5.7.8 wrong'), 'integration'],
    ['530 at MAIL', smtp('MAIL FROM', '530 5.7.0 authentication required'), 'integration'],
    ['550 at MAIL', smtp('MAIL FROM', '550 5.7.1 not your address'), 'integration'],
    ['530 at RCPT', smtp('RCPT TO', '530 5.7.0 authentication required'), 'destination'],
    ['554 at RCPT', smtp('RCPT TO', '554 5.7.1 Relay access denied'), 'destination'],
    ['550 5.7.1 at RCPT', smtp('RCPT TO', '550 5.7.1 policy'), 'destination'],
    ['553 5.1.8 at RCPT', smtp('RCPT TO', '553 5.1.8 bad sender'), 'destination'],
    ['550 relay at the end', smtp('DATA', '550 5.7.1 relay access denied'), 'destination'],
    ['450 at RCPT', smtp('RCPT TO', '450 4.2.0 greylisted'), 'vendor'],
  ],
  // Its mailer is the project's own and knows this table: one recipient it refuses with another status of
  // 4xx.
  ping_email: [401, 403, 404, 410].map((status) => [`${status}`, answer(status), 'integration'] as const),
  apns: [
    ...['InvalidProviderToken', 'MissingProviderToken', 'Forbidden', 'UnrelatedKeyIdInToken'].map(
      (reason) => [reason, answer(403, { reason }), 'integration'] as const,
    ),
    ...['BadTopic', 'MissingTopic', 'TopicDisallowed'].map(
      (reason) => [reason, answer(400, { reason }), 'destination'] as const,
    ),
    ...['BadCertificateEnvironment', 'BadEnvironmentKeyIdInToken'].map(
      (reason) => [reason, answer(403, { reason }), 'destination'] as const,
    ),
    ...['BadDeviceToken', 'DeviceTokenNotForTopic'].map(
      (reason) => [reason, answer(400, { reason }), 'destination'] as const,
    ),
    ['TooManyRequests', answer(429, { reason: 'TooManyRequests' }), 'vendor'],
  ],
  fcm: [
    ['UNAUTHENTICATED', fcm(401, 'UNAUTHENTICATED'), 'integration'],
    ['PERMISSION_DENIED', fcm(403, 'PERMISSION_DENIED'), 'integration'],
    ['THIRD_PARTY_AUTH_ERROR', fcm(401, 'UNAUTHENTICATED', 'THIRD_PARTY_AUTH_ERROR'), 'destination'],
    ['SENDER_ID_MISMATCH', fcm(403, 'PERMISSION_DENIED', 'SENDER_ID_MISMATCH'), 'destination'],
    ['NOT_FOUND', fcm(404, 'NOT_FOUND'), 'destination'],
    ['invalid_grant', { ...answer(400, { error: 'invalid_grant' }), of: 'token' }, 'integration'],
    ['QUOTA_EXCEEDED', fcm(429, 'RESOURCE_EXHAUSTED', 'QUOTA_EXCEEDED'), 'vendor'],
  ],
  expo: [
    ['401', answer(401, { errors: [{ code: 'UNAUTHORIZED' }] }), 'integration'],
    ['403', answer(403, { errors: [{ code: 'UNAUTHORIZED' }] }), 'destination'],
    ['InvalidCredentials', ticket('InvalidCredentials'), 'destination'],
    ['MismatchSenderId', ticket('MismatchSenderId'), 'destination'],
    ['MessageRateExceeded', ticket('MessageRateExceeded'), 'vendor'],
  ],
  web_push: [
    ['401', answer(401), 'destination'],
    ['403', answer(403), 'destination'],
    ['403, other keys', answer(403, 'the VAPID credentials do not correspond'), 'destination'],
    ['400 errno 110', answer(400, { errno: 110 }), 'destination'],
    ['400 UnauthorizedRegistration', answer(400, 'UnauthorizedRegistration'), 'destination'],
    ['keys that are no pair', { error: { code: 'BAD_VAPID_KEYS', message: '' } }, 'integration'],
    ['503', answer(503), 'vendor'],
  ],
  // An installation is of one workspace, a webhook of one channel.
  slack: [
    ...['missing_scope', 'not_allowed_token_type', 'not_authed'].map(
      (error) => [error, answer(200, { ok: false, error }), 'destination'] as const,
    ),
    ['ratelimited', answer(200, { ok: false, error: 'ratelimited' }), 'vendor'],
  ],
  teams: [['429', answer(429), 'vendor']],
};
