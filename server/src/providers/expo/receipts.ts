/**
 * Fetches the delivery status of pushes that Expo has accepted.
 * https://docs.expo.dev/push-notifications/sending-notifications/#push-receipts
 */

import type { PolledReceipt, ReceiptPoll } from '../provider.ts';
import { retryAfter } from '../shared/http-outcome.ts';
import { membersOf, nonEmptyText } from '../shared/inbound.ts';
import { requestJson } from '../shared/request-json.ts';
import { tidy } from '../shared/vendor-text.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** Receipts are usually available after 15 minutes, and kept for a day. */
export const expoReceipts: ReceiptPoll<{ access_token: string }> = {
  afterMs: [15 * MINUTE_MS, HOUR_MS, 4 * HOUR_MS, 12 * HOUR_MS, 23 * HOUR_MS],
  maxIds: 300,
  async fetch(ids, { access_token }, { transport }) {
    const response = await requestJson(transport.vendor('PROVIDER_EXPO_BASE_URL', 'https://exp.host'), {
      method: 'POST',
      path: '/--/api/v2/push/getReceipts',
      headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ids }),
    });
    const { data } = response.json as { data?: unknown };
    if (response.status !== 200 || typeof data !== 'object' || data === null)
      return { kind: 'failed', reason: response.summary, retryAfterMs: retryAfter(response.headers) };
    const receipts = Object.entries(data).flatMap(([id, value]): [string, PolledReceipt][] => {
      const receipt = receiptOf(membersOf(value));
      return receipt === undefined ? [] : [[id, receipt]];
    });
    return { kind: 'received', receipts: new Map(receipts) };
  },
};

/** A push token is a secret: anyone with it can push to the device. */
const TOKEN = /Expo(?:nent)?PushToken\[[^\]]*\]|\b[a-z\d]{8}(?:-[a-z\d]{4}){3}-[a-z\d]{12}\b/gi;

function receiptOf({
  status,
  message,
  details,
}: Readonly<Record<string, unknown>>): PolledReceipt | undefined {
  if (status === 'ok') return { kind: 'delivered' };
  if (status !== 'error') return undefined;
  const code = nonEmptyText(membersOf(details).error) ?? 'error';
  return {
    kind: code === 'DeviceNotRegistered' ? 'bounced' : 'dropped',
    code,
    ...(typeof message === 'string' ? { reason: tidy(message).replace(TOKEN, '[token]') } : {}),
    ...(code === 'DeviceNotRegistered' ? { tokenGone: true } : {}),
  };
}
