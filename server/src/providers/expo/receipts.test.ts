import { afterAll, expect, test, vi } from 'vitest';
import { startExpoStandIn } from '../../../test/support/expo-stand-in.ts';
import { startVendor } from '../../../test/support/vendor-stand-in.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import { createTransport } from '../shared/transport.ts';
import { expoReceipts } from './receipts.ts';

const egress = createEgressGuard({ allow: '127.0.0.0/8' });
const config = { access_token: 'canary' };
const expo = await startExpoStandIn({ accessToken: config.access_token });
afterAll(() => expo.stop());
/** Expo's own client reads its base URL once, when it is loaded. */
vi.stubEnv('EXPO_BASE_URL', expo.address);
const { Expo } = await import('expo-server-sdk');
vi.unstubAllEnvs();

async function fetchReceipts(ids: string[], { address = expo.address, given = config } = {}) {
  const transport = createTransport({ egress, origins: { PROVIDER_EXPO_BASE_URL: address } });
  try {
    return await expoReceipts.fetch(ids, given, { transport });
  } finally {
    await transport.close();
  }
}

const error = (code: string, message?: string) => ({
  status: 'error',
  ...(message === undefined ? {} : { message }),
  details: { error: code },
});

test('receipts have the status of each push, and none for unknown ones', async () => {
  expo.receipts.set('ok', { status: 'ok' });
  expo.receipts.set(
    'gone',
    error('DeviceNotRegistered', '"ExponentPushToken[x]" is not a\nregistered recipient'),
  );
  expo.receipts.set('big', error('MessageTooBig', 'too big'));
  expo.receipts.set('config', error('InvalidCredentials'));
  expo.receipts.set('odd', { status: 'error' });
  expo.receipts.set('new', { status: 'pondering' });
  const result = await fetchReceipts(['ok', 'gone', 'big', 'config', 'odd', 'new', 'unknown']);
  expect(result.kind === 'received' && Object.fromEntries(result.receipts)).toEqual({
    ok: { kind: 'delivered' },
    gone: {
      kind: 'bounced',
      code: 'DeviceNotRegistered',
      reason: '"[token]" is not a registered recipient',
      tokenGone: true,
    },
    big: { kind: 'dropped', code: 'MessageTooBig', reason: 'too big' },
    config: { kind: 'dropped', code: 'InvalidCredentials' },
    odd: { kind: 'dropped', code: 'error' },
  });
  expect(expo.receiptRequests.at(-1)).toEqual(['ok', 'gone', 'big', 'config', 'odd', 'new', 'unknown']);
});

test('Expo’s own client receives the same', async () => {
  expo.receipts.set('ok', { status: 'ok' });
  const theirs = new Expo({ accessToken: config.access_token });
  expect(await theirs.getPushNotificationReceiptsAsync(['ok', 'unknown'])).toEqual({ ok: { status: 'ok' } });
});

test('an invalid response can be retried', async () => {
  expect(await fetchReceipts(['ok'], { given: { access_token: 'other' } })).toMatchObject({
    kind: 'failed',
    reason: expect.stringContaining('401'),
  });
  const vendor = await startVendor();
  try {
    for (const [response, expected] of [
      [
        { status: 429, headers: { 'retry-after': '7' } },
        { kind: 'failed', retryAfterMs: 7_000 },
      ],
      [{ status: 500, body: 'no' }, { kind: 'failed' }],
      [{ status: 200, body: 'garbage' }, { kind: 'failed' }],
      ['cut', { kind: 'failed' }],
    ] as const) {
      vendor.reply(response);
      const result = await fetchReceipts(['x'], { address: vendor.address });
      expect(result).toMatchObject(expected);
      expect(JSON.stringify(result)).not.toContain('canary');
    }
  } finally {
    await vendor.stop();
  }
});
