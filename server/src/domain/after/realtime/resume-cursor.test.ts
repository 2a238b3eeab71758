import fc from 'fast-check';
import { expect, test } from 'vitest';
import { newId } from '../../../lib/ids.ts';
import { deliveryKey, MAX_REMEMBERED, RESUME_MARGIN_MS, ResumeCursor } from './resume-cursor.ts';

const NOW = 1_800_000_000_000;

interface Thing {
  key: number;
  atMs: number;
}

/** Returns what a resume from this event id delivers, of all rows. */
function resumed(text: string, all: readonly Thing[]): Thing[] | 'resync' {
  const cursor = ResumeCursor.parse(text);
  if (cursor === undefined) throw new Error(`unreadable: ${text}`);
  if (cursor.uncertain) return 'resync';
  return all.filter(({ key, atMs }) => atMs > cursor.sinceMs && !cursor.has(key));
}

// Things happen within a few margins, and become visible up to 30 s later: the order in which they are
// delivered.
const happenings = (maxLength: number) =>
  fc
    .array(
      fc.record({
        atMs: fc.integer({ min: 0, max: 4 * RESUME_MARGIN_MS }),
        lateMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 30_000 })),
      }),
      { maxLength },
    )
    .map((events) =>
      events
        .map(({ atMs, lateMs }) => ({
          key: deliveryKey(newId(), 0),
          atMs: NOW + atMs,
          visibleMs: NOW + atMs + lateMs,
        }))
        .sort((a, b) => a.visibleMs - b.visibleMs),
    );

test('after any interruption a resume delivers exactly what is missing, or asks for a resync', () => {
  fc.assert(
    fc.property(happenings(400), fc.integer({ min: 0, max: 400 }), (things, leaves) => {
      const delivered = things.slice(0, leaves);
      const cursor = new ResumeCursor();
      for (const { key, atMs } of delivered) cursor.add(key, atMs);
      if (delivered.length === 0) return;
      const missed = resumed(String(cursor), things);
      if (missed === 'resync') expect(delivered.length).toBeGreaterThan(MAX_REMEMBERED);
      else expect(new Set(missed)).toEqual(new Set(things.slice(leaves)));
    }),
  );
});

test('everything is delivered once over several interruptions', () => {
  fc.assert(
    fc.property(
      happenings(100),
      fc.array(fc.integer({ min: 0, max: 100 }), { maxLength: 6 }),
      (things, stops) => {
        const first = things[0];
        if (first === undefined) return;
        let text = '';
        const received: Thing[] = [first];
        const start = new ResumeCursor();
        start.add(first.key, first.atMs);
        text = String(start);
        for (const stop of [...stops.toSorted((a, b) => a - b), things.length]) {
          const visible = things.slice(0, stop);
          const missed = resumed(text, visible);
          if (missed === 'resync') throw new Error('no more than 100 were delivered');
          const cursor = ResumeCursor.parse(text) ?? new ResumeCursor();
          for (const thing of missed.toSorted((a, b) => a.atMs - b.atMs)) {
            cursor.add(thing.key, thing.atMs);
            received.push(thing);
          }
          text = String(cursor);
        }
        expect(received.length).toBe(things.length);
        expect(new Set(received)).toEqual(new Set(things));
      },
    ),
  );
});

test('a capped cursor still finds what other nodes published meanwhile', () => {
  const cursor = new ResumeCursor();
  cursor.add(deliveryKey(newId(), 0), NOW);
  const missed = { key: deliveryKey(newId(), 0), atMs: NOW + 1_000 };
  const own = { key: deliveryKey(newId(), 0), atMs: NOW + 5 * RESUME_MARGIN_MS };
  cursor.add(own.key, own.atMs, NOW);
  expect(resumed(String(cursor), [missed, own])).toEqual([missed]);
});

test('reads back what it wrote, which fits into a header of 1100 safe characters', () => {
  fc.assert(
    fc.property(happenings(400), (things) => {
      const cursor = new ResumeCursor();
      for (const { key, atMs } of things) cursor.add(key, atMs);
      const text = String(cursor);
      expect(text).toMatch(/^[A-Za-z0-9_-]{18,1100}$/);
      const read = ResumeCursor.parse(text);
      expect(read?.newestMs).toBe(cursor.newestMs);
      expect(read?.uncertain).toBe(cursor.uncertain);
      expect(String(read)).toBe(text);
    }),
  );
});

test('text that it did not write is nothing to it', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.base64String(), fc.stringMatching(/^[\w-]{18,40}$/)), (text) => {
      const cursor = ResumeCursor.parse(text);
      if (cursor !== undefined) expect(String(cursor)).toBe(text);
    }),
  );
  expect(ResumeCursor.parse('')).toBeUndefined();
  expect(ResumeCursor.parse('A'.repeat(2_000))).toBeUndefined();
});

test('one thing at two times, and two things at one time, have different keys', () => {
  fc.assert(
    fc.property(fc.integer({ min: NOW, max: 2 * NOW }), fc.integer({ min: NOW, max: 2 * NOW }), (a, b) => {
      const [one, other] = [newId(), newId()];
      expect(deliveryKey(one, a) === deliveryKey(one, b)).toBe(a === b);
      expect(deliveryKey(one, a)).not.toBe(deliveryKey(other, a));
      expect(deliveryKey(one, a)).not.toBe(deliveryKey(one, 0));
      expect(Number.isSafeInteger(deliveryKey(one, a))).toBe(true);
    }),
  );
});

test('a cursor of a time that the database does not know is not accepted', () => {
  const cursorAt = (ms: number) => {
    const cursor = new ResumeCursor();
    cursor.advance(ms);
    return ResumeCursor.parse(String(cursor));
  };
  const latest = Date.parse('9999-12-31T23:59:59.999Z');
  expect(cursorAt(latest)?.newestMs).toBe(latest);
  expect(cursorAt(latest + 1)).toBeUndefined();
  expect(cursorAt(2 ** 48 - 1)).toBeUndefined();
});
