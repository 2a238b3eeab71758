import { type TNumber, type TOptional, Type } from 'typebox';
import type { Rate } from './provider.ts';

/** The field of a config by which a project keeps its messages within what its account may send. */
export const maxPerSecond: TOptional<TNumber> = Type.Optional(
  Type.Number({
    exclusiveMinimum: 0,
    description:
      'How many messages are sent in a second at most, by this server; 0.5 is one in two seconds. Left out: as many as the provider takes',
  }),
);

// A limit looks back over as many messages as it allows, so large ones are kept to over a shorter time.
const MOST_IN_A_WINDOW = 1_000;

/** What a config with that field asks for. */
export function rateOf({ max_per_second: most }: { max_per_second?: number }): readonly Rate[] {
  if (most === undefined) return [];
  const limit = Math.min(MOST_IN_A_WINDOW, Math.max(1, Math.floor(most)));
  return [{ limit, windowMs: (1000 * limit) / most }];
}
