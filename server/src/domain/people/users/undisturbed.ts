const DEADLOCK = '40P01';
// In each round another transaction was faster.
const MAX_ROUNDS = 8;

/** The rows of a transaction changed after it read them. */
export class Changed extends Error {}

/**
 * Runs a transaction, and retries it when it throws `Changed` or deadlocks. Identities are locked before
 * their users, but a transaction that removes an identity cannot always keep to that order.
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
