/**
 * Whatever may go wrong between a provider and its vendor, and how the send has to end then. One table for all providers: each suite
 * (provider-conformance.ts for HTTP/1.1 and HTTP/2, smtp-faults.ts for SMTP) knows how to bring a fault about, none says what it means.
 *
 * `retry`, not ambiguous: nothing was sent, or the vendor said that it did not take it. Ambiguous: it may have been taken.
 */
const LATER = { kind: 'retry', ambiguous: false } as const;
const DOUBT = { kind: 'retry', ambiguous: true } as const;
const SENT = { kind: 'sent' } as const;

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
  'a redirect': { kind: 'rejected', scope: 'config' },

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
