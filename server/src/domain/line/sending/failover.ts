import type { SendOutcome } from '../../../providers/provider.ts';

/**
 * What one integration made of a message. Held back, it waits for its turn (`rate`) or for the integration to
 * work again.
 */
export type Tried =
  | { kind: 'done'; outcome: SendOutcome }
  | { kind: 'held'; untilMs: number; waitsFor: 'rate' | 'integration' };

/**
 * Whether the channel's next integration may be asked. Not when this one may have sent the message already,
 * now or at the last attempt (`isUnsure`), unless it refuses to; nor where it is certain that the message or
 * the address is refused; and one that only has to wait its turn does not need another's.
 */
export function asksNext(tried: Tried, isUnsure = false): boolean {
  if (tried.kind === 'held') return !isUnsure && tried.waitsFor === 'integration';
  const { outcome } = tried;
  if (outcome.kind === 'retry') return !isUnsure && !outcome.ambiguous;
  return outcome.kind === 'rejected' && (outcome.scope === 'config' || outcome.suspect === 'config');
}

/**
 * What counts of all that were asked, in their order: an answer that ends it; else the first failure that may
 * pass; else to come back when the first of them may work again; and only when every one has refused it, that
 * it was refused.
 */
export function whatCounts<T extends Tried>(all: readonly T[]): T {
  const [first] = all;
  if (first === undefined) throw new Error('no integration was asked');
  const ending = all.find((one) => one.kind === 'done' && !asksNext(one));
  const passing = all.find((one) => one.kind === 'done' && one.outcome.kind === 'retry');
  return ending ?? passing ?? soonest(all) ?? first;
}

function soonest<T extends Tried>(all: readonly T[]): T | undefined {
  let found: { tried: T; untilMs: number } | undefined;
  for (const tried of all) {
    if (tried.kind === 'held' && (found === undefined || tried.untilMs < found.untilMs))
      found = { tried, untilMs: tried.untilMs };
  }
  return found?.tried;
}
