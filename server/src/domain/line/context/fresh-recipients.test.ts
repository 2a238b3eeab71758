import { beforeEach, expect, test } from 'vitest';
import { FreshRecipients } from './fresh-recipients.ts';

let nowMs = 0;
let fresh: FreshRecipients;
beforeEach(() => {
  nowMs = 0;
  fresh = new FreshRecipients(() => nowMs);
});

const broadcastTo = (recipients: number) => ({
  projectId: 'project',
  category: null,
  topic: null,
  message: Buffer.from('{}'),
  inApp: null,
  recipients: Array.from({ length: recipients }, (_, index) => ({ external_id: `user-${index}` })),
});

test('returns what was put, once', () => {
  const broadcast = broadcastTo(2);
  fresh.put('one', broadcast);
  expect(fresh.take(['none', 'one']).get('one')).toBe(broadcast);
  expect(fresh.take(['one']).size).toBe(0);
});

test('keeps the oldest while it is full, and accepts more once they are taken', () => {
  const ids = Array.from({ length: 60 }, (_, index) => `broadcast-${index}`);
  for (const id of ids) fresh.put(id, broadcastTo(1_000));
  const kept = [...fresh.take(ids).keys()];
  expect(kept).toEqual(ids.slice(0, 49)); // 50,000 in all, one for each broadcast itself
  fresh.put('later', broadcastTo(1_000));
  expect(fresh.take(['later']).size).toBe(1);
});

test('text counts too', () => {
  fresh.put('long', { ...broadcastTo(1), message: Buffer.alloc(21_000_000) });
  expect(fresh.take(['long']).size).toBe(0);
});

test('drops what was not taken within ten seconds', () => {
  for (let index = 0; index < 60; index += 1) fresh.put(`old-${index}`, broadcastTo(1_000));
  nowMs = 10_000;
  fresh.put('new', broadcastTo(1_000));
  expect([...fresh.take(['old-0', 'new']).keys()]).toEqual(['new']);
});
