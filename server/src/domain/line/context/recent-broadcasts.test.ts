import { beforeEach, expect, test } from 'vitest';
import { RecentBroadcasts } from './recent-broadcasts.ts';

let nowMs = 0;
let recent: RecentBroadcasts;
beforeEach(() => {
  nowMs = 0;
  recent = new RecentBroadcasts(() => nowMs);
});

const broadcastTo = (recipients: number) => ({
  projectId: 'project',
  content: { category: null, topic: null, message: Buffer.from('{}'), inApp: null },
  template: null,
  recipients: Array.from({ length: recipients }, (_, index) => ({ external_id: `user-${index}` })),
});

test('returns what was put, once', () => {
  const broadcast = broadcastTo(2);
  recent.put('one', broadcast, 0);
  expect(recent.take(['none', 'one']).get('one')).toBe(broadcast);
  expect(recent.take(['one']).size).toBe(0);
});

test('keeps the oldest while it is full, and accepts more once they are taken', () => {
  const ids = Array.from({ length: 60 }, (_, index) => `broadcast-${index}`);
  for (const id of ids) recent.put(id, broadcastTo(1_000), 0);
  const kept = [...recent.take(ids).keys()];
  expect(kept).toEqual(ids.slice(0, 49)); // 50,000 in all, one for each broadcast itself
  recent.put('later', broadcastTo(1_000), 0);
  expect(recent.take(['later']).size).toBe(1);
});

test('text counts too', () => {
  const broadcast = broadcastTo(1);
  broadcast.content.message = Buffer.alloc(21_000_000);
  recent.put('long', broadcast, 0);
  expect(recent.take(['long']).size).toBe(0);
});

test('long recipients count by their length', () => {
  recent.put('long', broadcastTo(1_000), 20_000_000);
  recent.put('short', broadcastTo(1_000), 100_000);
  expect([...recent.take(['long', 'short']).keys()]).toEqual(['short']);
});

test('drops what was not taken within ten seconds', () => {
  for (let index = 0; index < 60; index += 1) recent.put(`old-${index}`, broadcastTo(1_000), 0);
  nowMs = 10_000;
  recent.put('new', broadcastTo(1_000), 0);
  expect([...recent.take(['old-0', 'new']).keys()]).toEqual(['new']);
});
