import { expect, test } from 'vitest';
import { firstIdAt, isId, newId, notificationId, timeOf } from './ids.ts';

test('ids are UUIDs of version 7, strictly ascending, and contain their time', () => {
  const now = Date.now();
  const ids = Array.from({ length: 10_000 }, () => newId(now));
  expect(new Set(ids).size).toBe(10_000);
  expect([...ids].sort()).toEqual(ids);
  for (const id of ids)
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(timeOf(ids[0] as string)).toBeGreaterThanOrEqual(now);
});

test('ids ascend even if the clock jumps back', () => {
  const later = newId(Date.now() + 3_600_000);
  expect(newId(Date.now()) > later).toBe(true);
});

test('the first id of a time is the smallest of that time', () => {
  const id = newId(4_000_000_000_000);
  expect(firstIdAt(timeOf(id)) <= id).toBe(true);
  expect(firstIdAt(timeOf(id) + 1) > id).toBe(true);
});

test('a notification id is a UUIDv7 of the broadcast time, stable, unique per user and broadcast', () => {
  const broadcasts = Array.from({ length: 50 }, () => newId());
  const users = Array.from({ length: 50 }, () => newId());
  const ids = broadcasts.flatMap((broadcast) => users.map((user) => notificationId(broadcast, user)));
  expect(new Set(ids).size).toBe(2500);
  for (const id of ids)
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const [first = '', second = ''] = broadcasts;
  const [user = ''] = users;
  expect(notificationId(first, user)).toBe(notificationId(first, user));
  expect(timeOf(notificationId(first, user))).toBe(timeOf(first));
  expect(notificationId(first, user) < notificationId(second, user)).toBe(true);
});

test('a text that is not a UUID is not an id', () => {
  expect(isId(newId())).toBe(true);
  for (const text of ['', 'x', '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f708', '0197a3c45b6e7f018a2b3c4d5e6f7081'])
    expect(isId(text)).toBe(false);
});
