import { setTimeout } from 'node:timers/promises';

const DEADLOCK = '40P01';
// Several clients that change the same few users at once have been seen to need more than eight.
const MAX_ATTEMPTS = 20;
// Grows with each attempt, and is random so that two transactions do not meet again.
const PAUSE_MS = 2;

/** Rows were changed by another transaction after this one read them. */
export class ConflictingChange extends Error {
  constructor() {
    super('the rows were changed by another transaction');
  }
}

/**
 * Runs a transaction, and retries it when it throws `ConflictingChange` or deadlocks. Identities are locked
 * before their users, but a transaction that removes an identity cannot always keep to that order.
 */
export async function retryOnConflict<Result>(transaction: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await transaction();
    } catch (error) {
      const isConflict =
        error instanceof ConflictingChange || (error as { code?: unknown }).code === DEADLOCK;
      if (!isConflict || attempt === MAX_ATTEMPTS) throw error;
      await setTimeout(Math.random() * PAUSE_MS * attempt);
    }
  }
}
