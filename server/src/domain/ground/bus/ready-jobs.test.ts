import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Bus, RealtimeMessage } from './messages.ts';
import { ReadyJobs } from './ready-jobs.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Jobs that a node announces, and the kinds that it has published so far. */
function announcing() {
  const messages: RealtimeMessage[] = [];
  const bus: Bus = { publish: (message) => void messages.push(message), subscribe: () => () => {} };
  const readyJobs = new ReadyJobs({ bus, nodeId: 'a' });
  return {
    announce: (...kinds: Parameters<ReadyJobs['announce']>[0][]) => {
      for (const kind of kinds) readyJobs.announce(kind);
    },
    published: () => messages.map((message) => ('kind' in message ? message.kind : message.type)),
  };
}

test('jobs of a kind are announced at once, and those that follow within 50 ms together', () => {
  const { announce, published } = announcing();
  announce('deliver', 'deliver', 'deliver');
  expect(published()).toEqual(['deliver']);
  vi.advanceTimersByTime(49);
  announce('deliver');
  expect(published()).toEqual(['deliver']);
  vi.advanceTimersByTime(1);
  expect(published()).toEqual(['deliver', 'deliver']);
});

test('kinds do not wait for each other', () => {
  const { announce, published } = announcing();
  announce('deliver', 'fan_out', 'deliver', 'fan_out');
  expect(published()).toEqual(['deliver', 'fan_out']);
});

test('a kind is announced at most once in 50 ms, however many jobs follow one another', () => {
  const { announce, published } = announcing();
  for (let ms = 0; ms < 500; ms += 5) {
    announce('deliver');
    vi.advanceTimersByTime(5);
  }
  expect(published()).toHaveLength(11);
});

test('nothing is announced twice if nothing followed', () => {
  const { announce, published } = announcing();
  announce('deliver');
  vi.advanceTimersByTime(1_000);
  expect(published()).toEqual(['deliver']);
});
