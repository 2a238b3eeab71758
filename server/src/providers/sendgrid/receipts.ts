/**
 * Delivery-status webhooks of SendGrid.
 * https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event
 */
import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import type { Receipt, ReceiptReader } from '../provider.ts';
import {
  dateOfSeconds,
  headerText,
  isRecent,
  MAX_REPORT_AGE_MS,
  membersOf,
  nonEmptyText,
} from '../shared/inbound.ts';

/** The signed event webhook: a list of events. The config has the public key of the signature. */
export const sendgridReceipts: ReceiptReader<{ webhook_public_key?: string }> = {
  isSigned({ headers, body, nowMs }, { webhook_public_key: text }) {
    const key = text === undefined ? undefined : publicKey(text);
    const time = headerText(headers['x-twilio-email-event-webhook-timestamp']);
    const signature = headerText(headers['x-twilio-email-event-webhook-signature']);
    if (key === undefined || !isRecent(time, nowMs, MAX_REPORT_AGE_MS)) return false;
    const signed = Buffer.concat([Buffer.from(time), body]);
    return verify('sha256', signed, { key, dsaEncoding: 'der' }, Buffer.from(signature, 'base64'));
  },
  read({ body, nowMs }) {
    const events = listOf(body.toString());
    return events && { receipts: events.flatMap((event) => receiptOf(membersOf(event), nowMs) ?? []) };
  },
};

/**
 * Parses the public key as SendGrid shows it: DER in base64, with or without the PEM lines. Returns undefined
 * if it is not an EC key.
 */
export function publicKey(text: string): KeyObject | undefined {
  try {
    const der = Buffer.from(text.replace(/-----[A-Z ]+-----/g, ''), 'base64');
    const key = createPublicKey({ key: der, format: 'der', type: 'spki' });
    return key.asymmetricKeyType === 'ec' ? key : undefined;
  } catch {
    return undefined;
  }
}

function listOf(text: string): unknown[] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function receiptOf(event: Readonly<Record<string, unknown>>, nowMs: number): Receipt | undefined {
  const meaning = meaningOf(event);
  if (meaning === undefined) return undefined;
  const { kind, why } = meaning;
  const address = nonEmptyText(event.email);
  const reference = nonEmptyText(event.reference); // from our custom_args
  const code = nonEmptyText(event.status);
  const reason = nonEmptyText(event.reason) ?? nonEmptyText(event.response);
  return {
    kind,
    at: dateOfSeconds(event.timestamp, nowMs),
    reference,
    code,
    reason: kind === 'delivered' ? undefined : reason,
    suppress: why && address !== undefined ? { address, reason: why } : undefined,
  };
}

type Meaning = { kind: Receipt['kind']; why?: NonNullable<Receipt['suppress']>['reason'] };

function meaningOf({
  event,
  type,
  reason,
  asm_group_id,
}: Readonly<Record<string, unknown>>): Meaning | undefined {
  switch (event) {
    case 'delivered':
      return { kind: 'delivered' };
    case 'bounce':
      // blocked: the server rejected this message or was unavailable. The address may still be valid.
      return type === 'blocked' ? { kind: 'bounced' } : { kind: 'bounced', why: 'bounced' };
    case 'dropped': {
      const why = WHY_DROPPED.find(([pattern]) => pattern.test(String(reason)))?.[1];
      // A recipient who left one unsubscribe group still receives e-mail that is not in a group.
      const ofGroup = why === 'unsubscribed' && asm_group_id !== undefined;
      return why === undefined || ofGroup ? { kind: 'dropped' } : { kind: 'dropped', why };
    }
    case 'spamreport':
      return { kind: 'complained', why: 'complained' };
    case 'unsubscribe':
    case 'group_unsubscribe':
      return { kind: 'unsubscribed' };
    default:
      return undefined; // not final, or an action of the recipient
  }
}

/** Reasons of drops for addresses on SendGrid's own suppression lists. */
const WHY_DROPPED: [RegExp, Meaning['why']][] = [
  [/^bounced address/i, 'bounced'],
  [/^spam reporting address/i, 'complained'],
  [/^unsubscribed address/i, 'unsubscribed'],
  [/^invalid$/i, 'rejected'],
];
