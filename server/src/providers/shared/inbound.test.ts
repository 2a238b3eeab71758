import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { hasSignature, isRecent } from './inbound.ts';

describe('a signature', () => {
  const [body, key] = [Buffer.from('{"a":1}'), 'secret'];
  const good = createHmac('sha256', key).update(body).digest('hex');

  test('must match completely', () => {
    expect(hasSignature(body, key, good)).toBe(true);
    for (const other of [
      '',
      good.slice(0, -2),
      good.slice(0, -1),
      good.slice(2),
      `${good}00`,
      `${good}!`,
      `${good.slice(0, -1)}x`,
      `${good.slice(0, 32)}${'0'.repeat(32)}`,
      `0x${good.slice(2)}`,
      ` ${good}`,
    ])
      expect([other, hasSignature(body, key, other)]).toEqual([other, false]);
  });

  test('depends on the bytes and the key', () => {
    expect(hasSignature(Buffer.from('{"a":2}'), key, good)).toBe(false);
    expect(hasSignature(body, 'secreT', good)).toBe(false);
    expect(hasSignature(body, '', good)).toBe(false);
  });
});

test('a time is recent within the limit, and up to five minutes ahead', () => {
  const nowMs = 1_800_000_000_000;
  const at = (ms: number) => isRecent(String((nowMs + ms) / 1000), nowMs, 60_000);
  expect([-61_000, -60_000, 0, 300_000, 301_000].map(at)).toEqual([false, true, true, true, false]);
  for (const text of ['', ' 1800000000', '1800000000.0', '18e8', '-1', '1800000000000000'])
    expect([text, isRecent(text, nowMs, 60_000)]).toEqual([text, false]);
});
