import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SlidingWindow } from './sliding-window.ts';

describe('a sliding window', () => {
  test('allows exactly the limit, and one more after the first has aged a minute', () => {
    const window = new SlidingWindow();
    const start = 1_800_000_000_000;
    for (let index = 0; index < 200; index += 1) expect(window.take(200, start + index).allowed).toBe(true);
    const refused = window.take(200, start + 500);
    expect(refused).toEqual({ allowed: false, remaining: 0, resetSeconds: 60 });
    expect(window.take(200, start + 59_999).allowed).toBe(false);
    expect(window.take(200, start + 60_000)).toEqual({ allowed: true, remaining: 199, resetSeconds: 60 });
  });

  test('reports a rejection without acquiring a permit', () => {
    const window = new SlidingWindow();
    const start = 1_800_000_000_000;
    expect(window.refusal(2, start)).toBeUndefined();
    for (let index = 0; index < 2; index += 1) expect(window.take(2, start).allowed).toBe(true);
    expect(window.refusal(2, start + 10_000)).toEqual({ allowed: false, remaining: 0, resetSeconds: 50 });
    expect(window.refusal(2, start + 60_000)).toBeUndefined();
    expect(window.take(2, start + 60_000).remaining).toBe(1);
  });

  test('admits at most the limit in any 59 seconds, and rejects for at most as long as it reports', () => {
    const steps = fc.array(fc.nat({ max: 3_000 }), { minLength: 50, maxLength: 400 });
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 20 }), (gaps, limit) => {
        const window = new SlidingWindow();
        const allowed: number[] = [];
        let now = 1_800_000_000_000;
        let freeAt = 0;
        for (const gap of gaps) {
          now += gap;
          const taken = window.take(limit, now);
          if (taken.allowed) allowed.push(now);
          else expect(now).toBeLessThan(freeAt || Number.POSITIVE_INFINITY);
          expect(taken.resetSeconds).toBeLessThanOrEqual(60);
          freeAt = taken.allowed ? 0 : now + taken.resetSeconds * 1000;
          expect(allowed.filter((at) => at > now - 59_000).length).toBeLessThanOrEqual(limit);
        }
      }),
    );
  });

  test('tolerates a clock that goes back', () => {
    const window = new SlidingWindow();
    expect(window.take(1, 2_000_000).allowed).toBe(true);
    expect(window.take(1, 1_941_000).allowed).toBe(false);
  });

  test('is reset after a clock change of more than a minute', () => {
    const window = new SlidingWindow();
    const start = 1_800_000_000_000;
    expect(window.take(1, start + 3_600_000).allowed).toBe(true);
    expect(window.take(1, start).allowed).toBe(true);
    expect(window.take(1, start + 59_999).allowed).toBe(false);
    expect(window.take(1, start + 60_000).allowed).toBe(true);
  });
});
