import { type TNumber, type TOptional, Type } from 'typebox';
import type { Rate } from '../provider.ts';

/** The field of a config by which a project keeps its messages within what its account may send. */
export const maxPerSecond: TOptional<TNumber> = Type.Optional(
  Type.Number({
    exclusiveMinimum: 0,
    description:
      'The most messages that this server sends in a second, spread evenly; 0.5 is one in two seconds. ' +
      'Left out: as many as the provider accepts',
  }),
);

// A limit remembers as many messages as it allows in its window, so large ones are kept to over a shorter
// time.
const MOST_IN_A_WINDOW = 1_000;
// Timers are too coarse to wait between the messages of a higher rate: those of 10 ms go together.
const BURSTS_PER_SECOND = 100;

/** What a config with that field asks for: so many in a second, and within it at even distances. */
export function rateOf({ max_per_second: most }: { max_per_second?: number }): readonly Rate[] {
  if (most === undefined) return [];
  const limit = Math.min(MOST_IN_A_WINDOW, Math.max(1, Math.floor(most)));
  const inAll = { limit, windowMs: (1000 * limit) / most };
  const burst = Math.max(1, Math.floor(most / BURSTS_PER_SECOND));
  if (burst >= limit) return [inAll];
  // Whole milliseconds, as timers have them; that it is not the hundredth part of one too many, the whole
  // second sees to.
  return [{ limit: burst, windowMs: Math.floor((1000 * burst) / most) }, inAll];
}
