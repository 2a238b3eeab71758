/**
 * Delivery-status webhooks of Mailgun.
 * https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/webhooks
 */

import type { Receipt, ReceiptReader } from '../provider.ts';
import {
  dateOfSeconds,
  hasSignature,
  isRecent,
  membersOf,
  nonEmptyText,
  objectOf,
} from '../shared/inbound.ts';

/**
 * Webhooks with one event each. The signature covers a time and a token, not the event: anyone with a
 * signature could report anything, so each token is valid for one request only.
 */
export const mailgunReceipts: ReceiptReader<{ webhook_signing_key?: string }> = {
  isSigned({ body, nowMs }, { webhook_signing_key: key }) {
    const { timestamp, token, signature } = membersOf(objectOf(body.toString())?.signature);
    const [time, word, mac] = [String(timestamp ?? ''), nonEmptyText(token), nonEmptyText(signature)];
    if (key === undefined || word === undefined || mac === undefined) return false;
    return hasSignature(Buffer.from(time + word), key, mac) && isRecent(time, nowMs, MAX_AGE_MS);
  },
  read({ body, nowMs }) {
    const payload = objectOf(body.toString());
    const once = nonEmptyText(membersOf(payload?.signature).token);
    const event = membersOf(payload?.['event-data']);
    if (once === undefined || typeof event.event !== 'string') return undefined;
    const receipt = receiptOf(event, nowMs);
    return { once, receipts: receipt === undefined ? [] : [receipt] };
  },
};

// Longer than Mailgun retries a request (eight hours), and shorter than the day for which used tokens are
// remembered.
const MAX_AGE_MS = 23 * 3_600_000;

function receiptOf(event: Readonly<Record<string, unknown>>, nowMs: number): Receipt | undefined {
  const meaning = meaningOf(event);
  if (meaning === undefined) return undefined;
  const { kind, why } = meaning;
  const status = membersOf(event['delivery-status']);
  const reference = nonEmptyText(membersOf(event['user-variables']).reference);
  const address = nonEmptyText(event.recipient);
  const code =
    nonEmptyText(status['enhanced-code']) ?? (typeof status.code === 'number' ? `${status.code}` : undefined);
  const reason =
    nonEmptyText(status.description) ??
    nonEmptyText(status.message) ??
    nonEmptyText(membersOf(event.reject).reason);
  const failed = kind === 'bounced' || kind === 'dropped';
  return {
    kind,
    at: dateOfSeconds(event.timestamp, nowMs),
    reference,
    code: failed ? code : undefined,
    reason: failed ? reason : undefined,
    suppress: why && address !== undefined ? { address, reason: why } : undefined,
  };
}

type Meaning = { kind: Receipt['kind']; why?: NonNullable<Receipt['suppress']>['reason'] };

function meaningOf(event: Readonly<Record<string, unknown>>): Meaning | undefined {
  switch (event.event) {
    case 'delivered':
      return { kind: 'delivered' };
    case 'complained':
      return { kind: 'complained', why: 'complained' };
    case 'unsubscribed':
      return { kind: 'unsubscribed' };
    case 'rejected':
      return { kind: 'dropped' };
    case 'failed': // Mailgun retries temporary failures
      return event.severity === 'permanent' ? failure(event) : undefined;
    default:
      return undefined;
  }
}

function failure(event: Readonly<Record<string, unknown>>): Meaning {
  const listed = SUPPRESSION_LISTS.get(String(event.reason));
  if (listed !== undefined) return { kind: 'dropped', why: listed };
  // Not every bounce means that the address does not exist: a full mailbox also bounces after some days.
  const type = membersOf(event['delivery-status'])['bounce-type'];
  const isHard = type === undefined ? event.reason === 'bounce' : type === 'hard';
  return isHard ? { kind: 'bounced', why: 'bounced' } : { kind: 'bounced' };
}

/** Reasons of failures for addresses on Mailgun's own suppression lists. */
const SUPPRESSION_LISTS: ReadonlyMap<string, NonNullable<Meaning['why']>> = new Map([
  ['suppress-bounce', 'bounced'],
  ['suppress-complaint', 'complained'],
  ['suppress-unsubscribe', 'unsubscribed'],
]);
