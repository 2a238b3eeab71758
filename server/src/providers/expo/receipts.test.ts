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
/** Expo's own client looks once, when it is loaded, for where to send to. */
vi.stubEnv('EXPO_BASE_URL', expo.address);
const { Expo } = await import('expo-server-sdk');
vi.unstubAllEnvs();

async function ask(ids: string[], { address = expo.address, given = config } = {}) {
  const transport = createTransport({ egress, origins: { PROVIDER_EXPO_BASE_URL: address } });
  try {
    return await expoReceipts.ask(ids, given, { transport });
  } finally {
    await transport.close();
  }
}

const error = (code: string, message?: string) => ({
  status: 'error',
  ...(message === undefined ? {} : { message }),
  details: { error: code },
});

test('what became of each, and nothing of those that are not known yet', async () => {
  expo.receipts.set('ok', { status: 'ok' });
  expo.receipts.set(
    'gone',
    error('DeviceNotRegistered', '"ExponentPushToken[x]" is not a\nregistered recipient'),
  );
  expo.receipts.set('big', error('MessageTooBig', 'too big'));
  expo.receipts.set('config', error('InvalidCredentials'));
  expo.receipts.set('odd', { status: 'error' });
  expo.receipts.set('new', { status: 'pondering' });
  const answer = await ask(['ok', 'gone', 'big', 'config', 'odd', 'new', 'unknown']);
  expect(answer.kind === 'received' && Object.fromEntries(answer.receipts)).toEqual({
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
  expect(expo.asked.at(-1)).toEqual(['ok', 'gone', 'big', 'config', 'odd', 'new', 'unknown']);
});

test('Expo’s own client is answered the same', async () => {
  expo.receipts.set('ok', { status: 'ok' });
  const theirs = new Expo({ accessToken: config.access_token });
  expect(await theirs.getPushNotificationReceiptsAsync(['ok', 'unknown'])).toEqual({ ok: { status: 'ok' } });
});

test('an answer that is none can be asked for again', async () => {
  expect(await ask(['ok'], { given: { access_token: 'other' } })).toMatchObject({
    kind: 'failed',
    reason: expect.stringContaining('401'),
  });
  const vendor = await startVendor();
  try {
    for (const [answer, expected] of [
      [
        { status: 429, headers: { 'retry-after': '7' } },
        { kind: 'failed', retryAfterMs: 7_000 },
      ],
      [{ status: 500, body: 'no' }, { kind: 'failed' }],
      [{ status: 200, body: 'garbage' }, { kind: 'failed' }],
      ['cut', { kind: 'failed' }],
    ] as const) {
      vendor.answer(answer);
      const said = await ask(['x'], { address: vendor.address });
      expect(said).toMatchObject(expected);
      expect(JSON.stringify(said)).not.toContain('canary');
    }
  } finally {
    await vendor.stop();
  }
});
