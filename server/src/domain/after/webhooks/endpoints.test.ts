import { expect, test } from 'vitest';
import { Endpoint } from './endpoints.ts';
import type { Attempt } from './send.ts';

const FAILED: Attempt = {
  accepted: false,
  gone: false,
  status: 500,
  reason: null,
  retryAfterMs: null,
  durationMs: 1,
  atMs: 0,
};

test('a webhook in a pause is tried when the clock was set back', async () => {
  let nowMs = Date.parse('2026-03-01T12:00:00Z');
  const endpoint = new Endpoint({ now: () => nowMs });
  let attempts = 0;
  const send = () =>
    endpoint.send(
      async () => {
        attempts += 1;
        return FAILED;
      },
      () => true,
    );
  for (let sent = 0; sent < 8; sent += 1) await send();
  expect(await send()).toHaveProperty('deferredUntilMs');
  expect(attempts).toBe(8);
  nowMs -= 3 * 3_600_000;
  expect(await send()).toEqual(FAILED);
  expect(await send()).toHaveProperty('deferredUntilMs');
  expect(attempts).toBe(9);
});
