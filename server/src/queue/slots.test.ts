import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Job } from './jobs.ts';
import { type SlotLimits, Slots } from './slots.ts';

const SILENT_MS = 1_000;
const LIMITS: SlotLimits = { slots: 3, slotsPerPartition: 2, gatherBelow: 0 };
const BEYOND = { maxWeight: 100, silentMs: SILENT_MS, silentPerPartition: 2 };

let freed: number;
let slots: Slots;

beforeEach(() => {
  vi.useFakeTimers();
  open({ ...LIMITS, beyond: BEYOND });
});
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0); // what has ended leaves nothing behind
  vi.useRealTimers();
});

function open(limits: SlotLimits): void {
  freed = 0;
  slots = new Slots(limits, () => {
    freed += 1;
  });
}

function begin(project: string, weight = 1) {
  const job = { id: 1, kind: 'deliver', partitionKey: project, priority: 0, weight, attempt: 1 } as Job;
  return slots.take([job]);
}

const busy = () => slots.busyPartitions.toSorted();

describe('without anything beyond the slots', () => {
  beforeEach(() => open(LIMITS));

  test('a batch begins while one is free, of a project that has not all of its own', () => {
    const [first, second] = [begin('a'), begin('a')];
    expect([slots.free, busy()]).toEqual([true, ['a']]);
    const third = begin('b');
    expect(slots.free).toBe(false);
    vi.advanceTimersByTime(60_000);
    expect([slots.free, freed]).toEqual([false, 0]);
    first.end();
    expect([slots.free, slots.active, busy()]).toEqual([true, 2, []]);
    for (const slot of [second, third]) slot.end();
  });

  test('none begins beside one that soon ends', () => {
    open({ ...LIMITS, gatherBelow: 10 });
    const [large, small] = [begin('a', 10), begin('b', 9)];
    expect(slots.free).toBe(false);
    small.end();
    expect(slots.free).toBe(true);
    large.end();
  });
});

test('when all slots are taken, a project that has nothing at work may begin all the same', () => {
  const batches = ['a', 'a', 'b'].map((project) => begin(project));
  expect([slots.free, busy()]).toEqual([true, ['a', 'b']]);
  batches.push(begin('c'));
  expect([slots.free, busy()]).toEqual([true, ['a', 'b', 'c']]);
  for (const batch of batches) batch.end();
  expect([slots.active, busy()]).toEqual([0, []]);
});

test('a batch that is silent gives its slot to another, of its own project too', () => {
  const batches = [begin('a'), begin('a')];
  vi.advanceTimersByTime(SILENT_MS - 1);
  expect([freed, busy()]).toEqual([0, ['a']]);
  vi.advanceTimersByTime(1);
  expect([freed, busy(), slots.active]).toEqual([2, [], 2]);
  batches.push(begin('a'), begin('a'), begin('b'));
  expect(busy()).toEqual(['a', 'b']);
  for (const batch of batches) batch.end();
  expect([slots.active, busy(), slots.free]).toEqual([0, [], true]);
});

test('a batch of which something ends again and again keeps its slot, however long it takes', () => {
  const batch = begin('a');
  for (let passedMs = 0; passedMs < 60_000; passedMs += SILENT_MS - 1) {
    vi.advanceTimersByTime(SILENT_MS - 1);
    batch.heartbeat();
  }
  expect(freed).toBe(0);
  vi.advanceTimersByTime(SILENT_MS);
  expect(freed).toBe(1);
  batch.heartbeat();
  vi.advanceTimersByTime(SILENT_MS);
  expect(freed).toBe(1);
  batch.end();
  batch.heartbeat();
});

test('so many silent batches of a project are passed by, the next one when one of them has ended', () => {
  const batches = Array.from({ length: 2 }, () => begin('a'));
  vi.advanceTimersByTime(SILENT_MS);
  batches.push(begin('a'), begin('a'));
  vi.advanceTimersByTime(10 * SILENT_MS);
  expect([freed, busy()]).toEqual([2, ['a']]);
  batches.shift()?.end();
  vi.advanceTimersByTime(SILENT_MS);
  expect([freed, busy()]).toEqual([3, []]);
  for (const batch of batches) batch.end();
});

test('what is at work beyond the slots is bounded by what all of it weighs', () => {
  const heavy = ['a', 'b', 'c'].map((project) => begin(project, 40));
  vi.advanceTimersByTime(10 * SILENT_MS);
  expect([slots.free, freed]).toEqual([false, 0]);
  heavy.shift()?.end();
  expect([slots.free, busy()]).toEqual([true, []]);
  vi.advanceTimersByTime(SILENT_MS);
  expect(freed).toBe(2);
  for (const batch of heavy) batch.end();
});
