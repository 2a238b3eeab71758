import { type TNumber, type TOptional, Type } from 'typebox';
import type { Rate } from '../provider.ts';

/** The config field that limits a project to what its account at the vendor may send. */
export const maxPerSecond: TOptional<TNumber> = Type.Optional(
  Type.Number({
    exclusiveMinimum: 0,
    description:
      'Maximum number of messages per second that all nodes send together, spread evenly; 0.5 is one every ' +
      'two seconds. If not given, only the limits of the provider apply',
  }),
);

// The rate limiter stores a timestamp per message of a window, so a higher rate gets a shorter window.
const MOST_IN_A_WINDOW = 1_000;
// Timers are too coarse to space the messages of a higher rate: those of 10 ms are sent together.
const BURSTS_PER_SECOND = 100;

/** Returns the rates of a config with that field: so many per second, evenly spaced within it. */
export function rateOf({ max_per_second: most }: { max_per_second?: number }): readonly Rate[] {
  if (most === undefined) return [];
  const limit = Math.min(MOST_IN_A_WINDOW, Math.max(1, Math.floor(most)));
  const inAll = { limit, windowMs: (1000 * limit) / most };
  const burst = Math.max(1, Math.floor(most / BURSTS_PER_SECOND));
  if (burst >= limit) return [inAll];
  // Rounded down to whole milliseconds, the resolution of timers. The second rate corrects the rounding.
  return [{ limit: burst, windowMs: Math.floor((1000 * burst) / most) }, inAll];
}
