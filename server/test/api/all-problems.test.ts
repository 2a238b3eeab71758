import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestService, type TestService } from '../support/service.ts';

let it: TestService;
beforeAll(async () => {
  it = await startTestService();
});
afterAll(() => it.stop());

/** The errors of a request that breaks its schema and other rules. */
async function refused(
  method: string,
  path: string,
  {
    as = 'project',
    ...request
  }: { as?: 'project' | 'user'; body?: unknown; headers?: Record<string, string> } = {},
): Promise<string[]> {
  const token = as === 'project' ? it.project.jwt : it.project.userJwt({ user_external_id: 'ada' });
  const response = await it.request(method, `/v2${path}`, { token, ...request });
  expect([response.status, ...new Set(response.codes)]).toEqual([422, 'validation_failed']);
  return response.messages;
}

const id = '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081';

test('a category config gets the errors of conditions, channels, windows and schema together', async () => {
  const body = {
    key: 'user_preferences',
    disabled: 'no',
    channels: [
      { channel: 'email', if: 'user.plan ==' },
      { channel: 'email', delay: -1 },
      { channel: 'fax', if: '{{ x | shout }} == 1' },
      null,
      { channel: 'sms', windows: [{ from: '09:00', to: '09:00' }, 7] },
    ],
    extra: 1,
  };
  const messages = await refused('PUT', '/channels', { body });
  expect(messages).toEqual(
    expect.arrayContaining([
      "Param '(root)' doesn't allow key: extra",
      "Param 'disabled' must be a boolean",
      "Param 'channels.1.delay' must be 0 or more",
      "Param 'channels.3' must be an object",
      "Param 'key' must not be user_preferences",
      "Param 'channels.1.channel' repeats channels.0: list email once",
      "Param 'channels.0.if' is not a condition: it ends too early",
      expect.stringMatching(/^Param 'channels.2.if' is not a condition: undefined filter: shout/),
      expect.stringMatching(/^Param 'channels.4.windows.0.to' is the same as from/),
    ]),
  );
});

test('only the first of very many conditions of a config are validated', async () => {
  const body = {
    key: 'orders',
    channels: Array.from({ length: 1_900 }, () => ({ channel: 'email', if: '(' })),
  };
  const messages = await refused('PUT', '/channels', { body });
  expect(messages).toContain("Param 'channels' must have at most 7 items");
  expect(messages.filter((message) => message.includes('is not a condition'))).toHaveLength(14);
});

test('contradictory preferences are rejected', async () => {
  const channel = (enabled: unknown) => ({ name: 'email', enabled });
  const body = {
    categories: [{ key: 'orders', channels: [channel(true), channel(false), channel('no'), 3] }, 'x'],
  };
  const messages = await refused('PUT', '/channels/user_preferences', { as: 'user', body });
  expect(messages).toEqual(
    expect.arrayContaining([
      "Param 'categories.0.channels.1.enabled' contradicts an earlier item: orders on email",
      "Param 'categories.0.channels.2.enabled' must be a boolean",
      "Param 'categories.1' must be an object",
    ]),
  );
});

test('a subscription gets errors for repeated channels and an invalid Idempotency-Key', async () => {
  const body = { topic: 7, categories: [{ slug: 'a' }, { slug: 'a' }, null] };
  const headers = { 'idempotency-key': 'not visible' };
  const messages = await refused('POST', '/subscriptions', { as: 'user', body, headers });
  expect(messages).toEqual(
    expect.arrayContaining([
      "Param 'topic' must be a string",
      "Param 'categories.1.slug' repeats categories.0: list a once",
      "Header 'Idempotency-Key' must have 1 to 255 visible ASCII characters",
    ]),
  );
});

test('a broadcast gets an error for each override that no provider can merge', async () => {
  const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1) });
  const overrides = { providers: { ses: nested(33), apns: nested(32), fcm: { a: [{ constructor: 1 }] } } };
  const wrong = [
    "Param 'overrides.providers.ses' is nested deeper than 32 levels",
    "Param 'overrides.providers.fcm' must not name constructor",
  ];
  const recipients = [{ external_id: 'ada' }];
  expect(await refused('POST', '/broadcasts', { body: { title: 'T', recipients, overrides } })).toEqual(
    wrong,
  );
  expect(await refused('POST', '/broadcasts', { body: { title: '', recipients, overrides } })).toEqual([
    "Param 'title' must have at least 1 character",
    ...wrong,
  ]);
});

test('a broadcast gets an error if its topic is missing', async () => {
  const body = { title: '', recipients: [{ topic: { subscribers: true } }, null] };
  expect(await refused('POST', '/broadcasts', { body })).toEqual(
    expect.arrayContaining([
      "Param 'title' must have at least 1 character",
      "Param 'topic' is missing: recipients.0 are its subscribers",
    ]),
  );
});

test('a list gets the errors of its types and cursors together', async () => {
  const cursors = `starting_after=${id}&ending_before=${id}`;
  expect(await refused('GET', `/events?limit=0&type=broadcast.created,x&since=now&${cursors}`)).toEqual([
    "Param 'limit' must be 1 or more",
    "Param 'since' must be a date and time as in 2026-01-31T12:00:00Z",
    "Param 'ending_before' cannot be combined with 'starting_after'",
    "Param 'type' has an unknown event type: x",
  ]);
  expect(await refused('GET', `/notifications?status=x&${cursors}`, { as: 'user' })).toEqual([
    "Param 'status' must be one of: unread, read, archived, snoozed",
    "Param 'ending_before' cannot be combined with 'starting_after'",
  ]);
  expect(await refused('GET', `/users?${cursors}`)).toEqual([
    "Param 'ending_before' cannot be combined with 'starting_after'",
  ]);
});

test.each([
  null,
  7,
  'x',
  [],
  [[]],
  { channels: {} },
  { channels: [[]], categories: { length: 3 }, recipients: 'x' },
])('nothing of another shape is more than refused: %j', async (body) => {
  for (const [method, path, as] of [
    ['PUT', '/channels', 'project'],
    ['PUT', '/channels/delivery_windows', 'project'],
    ['PUT', '/channels/user_preferences', 'user'],
    ['POST', '/subscriptions', 'user'],
    ['POST', '/broadcasts', 'project'],
  ] as const)
    expect(await refused(method, path, { as, body })).not.toEqual([]);
});
