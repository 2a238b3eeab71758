import type { Database } from '../../server/src/db/client.ts';
import type { Sealer } from '../../server/src/lib/seal.ts';
import type { Belfry } from './belfry.ts';

/** Rows of each kind in a full database. */
export const MANY = 1_000_000;
export const BROADCASTS = 200_000;
/** Rows of kinds that a project has few of. */
export const FEW = 1_000;
const STEP = 100_000;

/** A database that is being filled. */
export interface Fill {
  client: Awaited<ReturnType<Database['connect']>>;
  belfry: Belfry;
  sealer: Sealer;
  heavyUser: string;
}

/** Runs a statement for the numbers 1 to `count` in steps. `text` gets the SQL of the numbers. */
export async function inSteps(
  { client }: Fill,
  count: number,
  text: (numbers: string) => string,
  values: readonly unknown[],
): Promise<void> {
  for (let from = 1; from <= count; from += STEP)
    await client.query(text(`generate_series(${from}, ${Math.min(count, from + STEP - 1)})`), [...values]);
}
