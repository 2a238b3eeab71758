/**
 * Delivery-status callbacks of Twilio.
 * https://www.twilio.com/docs/messaging/guides/track-outbound-message-status
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Receipt, ReceiptReader } from '../provider.ts';
import { headerText } from '../shared/inbound.ts';

/**
 * Status callbacks. They are signed with the account's auth token, which is optional in the config. Without
 * it, a callback is accepted if it calls the URL of the message, which only Twilio received.
 */
export const twilioReceipts: ReceiptReader<{ auth_token?: string }> = {
  isSigned({ headers, body, url, reference }, { auth_token: key }) {
    if (body.length > MAX_FORM_BYTES) return false;
    if (key === undefined) return reference !== undefined;
    const given = Buffer.from(headerText(headers['x-twilio-signature']), 'base64');
    const fields = signedFields(new URLSearchParams(body.toString()));
    return urlVariants(url).some((one) => {
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
    return { receipts: [{ ...receipt, reference }] };
  },
};

// A callback has a few hundred bytes. The limit protects from unverified senders.
const MAX_FORM_BYTES = 64 * 1024;

/** Returns the URL with and without port, because Twilio may sign either, whichever it called. */
function urlVariants(url: string): string[] {
  const [origin = '', scheme = '', host = '', port] =
    /^(https?:\/\/)(\[[^\]]*\]|[^/?#:]*)(:\d+)?/i.exec(url) ?? [];
  const rest = url.slice(origin.length);
  const usual = scheme.toLowerCase() === 'https://' ? ':443' : ':80';
  return [scheme + host + rest, scheme + host + (port ?? usual) + rest];
}

/**
 * Returns the signed form fields, in the order of their names:
 * https://www.twilio.com/docs/usage/security#validating-requests
 */
function signedFields(form: URLSearchParams): string {
  // A repeated name counts once for each distinct value. Linear time, because the sender is not verified yet.
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
  if (kind === undefined) return undefined; // not final
  if (kind === 'delivered') return { kind, at };
  const code = form.get('ErrorCode') ?? '';
  const reason = form.get('ErrorMessage') ?? REASONS.get(code);
  const why = SUPPRESSIONS.get(code);
  const to = form.get('To');
  return {
    kind,
    at,
    code: code === '' ? undefined : code,
    reason,
    suppress: why && to !== null ? { address: to, reason: why } : undefined,
  };
}

/** `failed`: not sent at all. `undelivered`: the carrier did not deliver it to the phone. */
const KINDS: ReadonlyMap<string, 'delivered' | 'bounced' | 'dropped'> = new Map([
  ['delivered', 'delivered'],
  ['read', 'delivered'],
  ['undelivered', 'bounced'],
  ['failed', 'dropped'],
  ['canceled', 'dropped'],
]);

const SUPPRESSIONS: ReadonlyMap<string, NonNullable<Receipt['suppress']>['reason']> = new Map([
  ['21610', 'unsubscribed'],
  ['30004', 'rejected'],
  ['30005', 'bounced'],
  ['30006', 'bounced'],
]);

/** Reasons by error code: callbacks carry the code only. https://www.twilio.com/docs/api/errors */
const REASONS: ReadonlyMap<string, string> = new Map([
  ['21610', 'the recipient has replied STOP'],
  ['30001', 'the message queue is full'],
  ['30002', 'the account is suspended'],
  ['30003', 'the phone is switched off or unreachable'],
  ['30004', 'the recipient or the carrier blocks these messages'],
  ['30005', 'the number does not exist'],
  ['30006', 'the number is a landline, or its carrier cannot be reached'],
  ['30007', 'the carrier filtered the message'],
  ['30008', 'the carrier gave no reason'],
  ['30034', 'the sender is not registered for messages to the United States'],
]);
