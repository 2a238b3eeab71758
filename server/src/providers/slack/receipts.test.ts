import { expect, test } from 'vitest';
import { slackReceipts } from './receipts.ts';

// The example of "Verifying requests from Slack".
const EXAMPLE = {
  secret: '8f742231b10e8888abcd99yyyzzz85a5',
  time: '1531420618',
  body:
    'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&' +
    'channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&' +
    // language-ignore: quoted from the documentation
    'response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&' +
    'trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c',
  signature: 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
};
const url = 'https://notify.example.com/v2/integrations/slack/webhooks/incoming/1';
const request = (body: string, headers: Record<string, string> = {}, nowMs = 1_531_420_700_000) => ({
  url,
  headers,
  body: Buffer.from(body),
  nowMs,
});

test('the documented signature is valid for five minutes', () => {
  const { secret: signing_secret, time, body, signature } = EXAMPLE;
  const headers = { 'x-slack-request-timestamp': time, 'x-slack-signature': signature };
  const isSigned = (one: ReturnType<typeof request>, key: string | undefined = signing_secret) =>
    slackReceipts.isSigned(one, { signing_secret: key });
  expect(isSigned(request(body, headers))).toBe(true);
  const ms = Number(time) * 1000;
  for (const [nowMs, expected] of [
    [ms + 300_000, true],
    [ms + 300_001, false],
    [ms - 300_000, true],
    [ms - 300_001, false],
  ] as const)
    expect(isSigned(request(body, headers, nowMs))).toBe(expected);
  for (const wrong of [
    request(`${body} `, headers),
    request(body, { ...headers, 'x-slack-request-timestamp': '1531420619' }),
    request(body, { ...headers, 'x-slack-request-timestamp': '' }),
    request(body, { ...headers, 'x-slack-signature': signature.slice(3) }),
    request(body, { ...headers, 'x-slack-signature': '' }),
    request(body),
  ])
    expect(isSigned(wrong)).toBe(false);
  expect(isSigned(request(body, headers), 'other')).toBe(false);
  expect(slackReceipts.isSigned(request(body, headers), { signing_secret: undefined })).toBe(false);
});

// From the reference of the events.
const wrapped = (event: object, more: object = {}) => ({
  token: 'XXYYZZ',
  team_id: 'TXXXXXXXX',
  api_app_id: 'AXXXXXXXXX',
  event,
  type: 'event_callback',
  event_id: 'EvXXXXXXXX',
  event_time: 1_531_420_600,
  ...more,
});
const goneAt = new Date(1_531_420_600_999);
const gone = (more: { code: string; channelId?: string; installationId?: string }) => ({
  installationId: 'AXXXXXXXXX-TXXXXXXXX',
  goneAt,
  reason: `Slack reports ${more.code}`,
  ...more,
});

test.each([
  [wrapped({ type: 'app_uninstalled' }), [gone({ code: 'app_uninstalled' })]],
  [
    wrapped({ type: 'tokens_revoked', tokens: { oauth: ['UXXXXXXXX'], bot: ['UXXXXXXXX'] } }),
    [gone({ code: 'tokens_revoked' })],
  ],
  [wrapped({ type: 'tokens_revoked', tokens: { oauth: ['UXXXXXXXX'] } }), []],
  [
    wrapped({ type: 'channel_archive', channel: 'C024BE91L', user: 'U024BE7LH' }),
    [gone({ code: 'channel_archive', channelId: 'C024BE91L' })],
  ],
  [
    wrapped({ type: 'channel_deleted', channel: 'C024BE91L' }),
    [gone({ code: 'channel_deleted', channelId: 'C024BE91L' })],
  ],
  [
    wrapped({ type: 'group_deleted', channel: 'G024BE91L' }),
    [gone({ code: 'group_deleted', channelId: 'G024BE91L' })],
  ],
  [wrapped({ type: 'channel_archive' }), []],
  [wrapped({ type: 'message', channel: 'C024BE91L' }), []],
  [wrapped({ type: 'app_uninstalled' }, { api_app_id: 1 }), []],
  [
    wrapped(
      { type: 'app_uninstalled' },
      { authorizations: [{ enterprise_id: 'E1', team_id: 'TXXXXXXXX', is_enterprise_install: true }] },
    ),
    [gone({ code: 'app_uninstalled' }), gone({ code: 'app_uninstalled', installationId: 'AXXXXXXXXX-E1' })],
  ],
])('%j', (payload, expected) => {
  expect(slackReceipts.read(request(JSON.stringify(payload)))).toEqual({ gone: expected });
});

test.each([1e300, -1e300, -1, 9e12, 'soon', null])('an event of the time %j is of now', (event_time) => {
  const payload = wrapped({ type: 'channel_archive', channel: 'C1' }, { event_time });
  const { gone: found = [] } = slackReceipts.read(request(JSON.stringify(payload))) ?? {};
  expect(found).toMatchObject([{ goneAt: new Date(1_531_420_700_000) }]);
});

test('a challenge is returned, and other bodies cannot be read', () => {
  const read = (payload: unknown) => slackReceipts.read(request(JSON.stringify(payload)));
  expect(read({ type: 'url_verification', token: 't', challenge: 'c' })).toEqual({ challenge: 'c' });
  expect(read({ type: 'url_verification' })).toBeUndefined();
  expect(read({ type: 'app_rate_limited', team_id: 'T1' })).toEqual({});
  for (const wrong of [null, [], {}, { type: 1 }]) expect(read(wrong)).toBeUndefined();
});
