/**
 * The faults between a provider and its vendor, with the outcome of the send. All providers share this table.
 * The suites (provider-conformance.ts for HTTP/1.1 and HTTP/2, smtp/faults.test.ts for SMTP) cause the
 * faults.
 *
 * `retry` without `ambiguous`: nothing was sent, or the vendor responded that it did not accept the message.
 * With `ambiguous`: the vendor may have accepted it.
 */
const LATER = { kind: 'retry', ambiguous: false } as const;
const AMBIGUOUS = { kind: 'retry', ambiguous: true } as const;
const SENT = { kind: 'sent' } as const;

export const FAULTS = {
  // Before the request is written, nothing can have been sent.
  'connection refused': LATER,
  'timeout before the write': LATER,
  'bad TLS': LATER,
  // Afterwards it may have been sent, unless the vendor responds.
  'timeout after the write': AMBIGUOUS,
  'slow body': AMBIGUOUS,
  reset: AMBIGUOUS,
  'half-closed': AMBIGUOUS,
  'half-closed within the response': AMBIGUOUS,
  // The server speaks another protocol. The protocol decides whether the request may have had an effect.
  'another protocol': { kind: 'retry' },

  // The vendor did not accept the message. It may name a time to retry, of which at most an hour counts.
  '429': { ...LATER, retryAfterMs: undefined },
  '429 with Retry-After in seconds': { ...LATER, retryAfterMs: 7_000 },
  '429 with Retry-After as a date': { ...LATER, retryAfterMs: 90_000 },
  '429 with Retry-After of a day': { ...LATER, retryAfterMs: 3_600_000 },
  '429 with an invalid Retry-After': { ...LATER, retryAfterMs: undefined },
  '500': LATER,
  '503': LATER,
  '503 with Retry-After in seconds': { ...LATER, retryAfterMs: 7_000 },
  // The response of a gateway does not show whether the vendor got the message.
  '502': AMBIGUOUS,
  '504': AMBIGUOUS,
  // Redirects are not followed, because the config decides where messages go. Only this fault is caused by
  // the integration, the others by the vendor.
  'a redirect': { kind: 'rejected', scope: 'config' },

  // A success that does not look like the vendor's. It may come from a proxy.
  'garbage body': AMBIGUOUS,
  'a page as body': AMBIGUOUS,
  'wrong content type': SENT,
} as const satisfies Record<string, Expected>;

export type FaultName = keyof typeof FAULTS;
/** Members of an outcome. Those that are `undefined` must be missing. */
export type Expected = {
  kind: 'sent' | 'retry' | 'rejected' | 'token_gone';
  ambiguous?: boolean;
  retryAfterMs?: number | undefined;
  scope?: 'message' | 'address' | 'config' | 'token';
};
export const FAULT_NAMES = Object.keys(FAULTS) as FaultName[];
