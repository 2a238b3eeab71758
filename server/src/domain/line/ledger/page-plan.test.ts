import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { channelPlan, planJson, readPlan } from './page-plan.ts';

const users = Array.from({ length: 1_000 }, (_none, index) => `user ${index}`);

describe('the plan of a page', () => {
  test('is null if all have it in the inbox at once', () => {
    expect(planJson([])).toBeNull();
    expect(planJson([channelPlan('in_app', users, new Map(), undefined)])).toBeNull();
    const [inbox, ...more] = readPlan(null);
    expect([inbox?.channel, inbox?.dueAtMs, inbox?.skippedAt(0), more]).toEqual([
      'in_app',
      undefined,
      undefined,
      [],
    ]);
  });

  test('has for each user why a channel is not used, and when it is due', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_000 }),
        fc.array(fc.constantFrom('unreachable', 'switched_off', undefined), {
          minLength: 1_000,
          maxLength: 1_000,
        }),
        (size, fates) => {
          const page = users.slice(0, size);
          const skipped = new Map<string, string[]>();
          for (const [place, user] of page.entries()) {
            const reason = fates[place];
            if (reason !== undefined) skipped.set(reason, [...(skipped.get(reason) ?? []), user]);
          }
          const json = planJson([
            channelPlan('in_app', page, new Map(), undefined),
            channelPlan('email', page, skipped, 1_700_000_000_000),
          ]);
          const [inbox, email] = readPlan(json);
          expect(page.map((_user, place) => email?.skippedAt(place))).toEqual(fates.slice(0, size));
          expect([inbox?.skippedAt(0), inbox?.dueAtMs, email?.dueAtMs]).toEqual([
            undefined,
            undefined,
            1_700_000_000_000,
          ]);
        },
      ),
      { numRuns: 50 },
    );
  });

  test('is short, whichever users are skipped', () => {
    const every = new Map([['category_disabled', users]]);
    expect(planJson([channelPlan('in_app', users, every, undefined)])).toBe(
      '[{"channel":"in_app","skipped":{"category_disabled":true}}]',
    );
    const second = new Map([['unreachable', users.filter((_user, place) => place % 2 === 1)]]);
    expect(planJson([channelPlan('email', users, second, 1)])?.length).toBeLessThan(250);
  });
});
