/** What Twilio reports. https://www.twilio.com/docs/messaging/guides/track-outbound-message-status */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Receipt, ReceiptReader } from '../provider.ts';
import { textOf } from '../shared/inbound.ts';

/**
 * Status callbacks. They are signed with the account's auth token, which sending needs no one to have:
 * without it, what counts is that the address called is the one that was made for the message, and given to
 * Twilio alone.
 */
export const twilioReceipts: ReceiptReader<{ auth_token?: string }> = {
  isSigned({ headers, body, url, reference }, { auth_token: key }) {
    if (body.length > MAX_FORM_BYTES) return false;
    if (key === undefined) return reference !== undefined;
    const given = Buffer.from(textOf(headers['x-twilio-signature']), 'base64');
    const fields = signedFields(new URLSearchParams(body.toString()));
    return writings(url).some((one) => {
      const wanted = createHmac('sha1', key)
        .update(one + fields)
        .digest();
      return given.length === wanted.length && timingSafeEqual(given, wanted);
    });
  },
  read({ body, reference, nowMs }) {
    const form = new URLSearchParams(body.toString());
    const status = form.get('MessageStatus') ?? form.get('SmsStatus');
    if (status === null) return undefined;
    const receipt = receiptOf(status, form, new Date(nowMs));
    if (receipt === undefined) return { receipts: [] };
    return { receipts: [{ ...receipt, ...(reference === undefined ? {} : { reference }) }] };
  },
};

// A callback has some hundred. The sender is not known before all of it is in order.
const MAX_FORM_BYTES = 64 * 1024;

/** With the port and without: which of them Twilio signs does not follow from which it has called. */
function writings(url: string): string[] {
  const [origin = '', scheme = '', host = '', port] =
    /^(https?:\/\/)(\[[^\]]*\]|[^/?#:]*)(:\d+)?/i.exec(url) ?? [];
  const rest = url.slice(origin.length);
  const usual = scheme.toLowerCase() === 'https://' ? ':443' : ':80';
  return [scheme + host + rest, scheme + host + (port ?? usual) + rest];
}

/**
 * https://www.twilio.com/docs/usage/security#validating-requests: after the address, names and values in the
 * order of names.
 */
function signedFields(form: URLSearchParams): string {
  // A name that comes twice counts once, for each of its values. In one pass: the sender is not known yet.
  const byName = Map.groupBy(form, ([name]) => name);
  return [...byName.keys()]
    .sort()
    .flatMap((name) => {
      const values = new Set(byName.get(name)?.map(([, value]) => value));
      return [...values].sort().map((value) => name + value);
    })
    .join('');
}

function receiptOf(status: string, form: URLSearchParams, at: Date): Receipt | undefined {
  const kind = KINDS.get(status);
  if (kind === undefined) return undefined; // on its way still
  if (kind === 'delivered') return { kind, at };
  const code = form.get('ErrorCode') ?? '';
  const reason = form.get('ErrorMessage') ?? WORDS.get(code);
  const why = WHY_NEVER_AGAIN.get(code);
  const to = form.get('To');
  return {
    kind,
    at,
    ...(code === '' ? {} : { code }),
    ...(reason === undefined ? {} : { reason }),
    ...(why === undefined || to === null ? {} : { suppress: { address: to, reason: why } }),
  };
}

/** `failed`: not sent at all. `undelivered`: a carrier would not, or could not, bring it to the phone. */
const KINDS: ReadonlyMap<string, 'delivered' | 'bounced' | 'dropped'> = new Map([
  ['delivered', 'delivered'],
  ['read', 'delivered'],
  ['undelivered', 'bounced'],
  ['failed', 'dropped'],
  ['canceled', 'dropped'],
]);

const WHY_NEVER_AGAIN: ReadonlyMap<string, NonNullable<Receipt['suppress']>['reason']> = new Map([
  ['21610', 'unsubscribed'],
  ['30004', 'rejected'],
  ['30005', 'bounced'],
  ['30006', 'bounced'],
]);

/** Callbacks have numbers alone. https://www.twilio.com/docs/api/errors */
const WORDS: ReadonlyMap<string, string> = new Map([
  ['21610', 'the recipient has replied STOP'],
  ['30001', 'the queue of messages has overflowed'],
  ['30002', 'the account is suspended'],
  ['30003', 'the phone is switched off or out of reach'],
  ['30004', 'the number takes no such messages'],
  ['30005', 'there is no such number'],
  ['30006', 'the number is a landline, or its carrier cannot be reached'],
  ['30007', 'the carrier has filtered the message out'],
  ['30008', 'the carrier does not say why'],
  ['30034', 'the sender is not registered for messages to the United States'],
]);
