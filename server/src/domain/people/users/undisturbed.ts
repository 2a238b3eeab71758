const DEADLOCK = '40P01';
// Each round somebody else was there first.
const MAX_ROUNDS = 8;

/** What a transaction was about is not as it read it any more. */
export class Changed extends Error {}

/**
 * Runs a transaction until nobody has come between: again, when it throws `Changed`, and when the database
 * has undone it because it and another waited for each other. Names are locked before their users, but who
 * takes a name away cannot always keep to that.
 */
export async function undisturbed<Result>(transaction: () => Promise<Result>): Promise<Result> {
  for (let round = 1; ; round += 1) {
    try {
      return await transaction();
    } catch (error) {
      const disturbed = error instanceof Changed || (error as { code?: unknown }).code === DEADLOCK;
      if (!disturbed || round === MAX_ROUNDS) throw error;
    }
  }
}
