import type { SendOutcome } from '../../../providers/provider.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';

/** The result of an attempt to send a message over one integration. */
export type AttemptResult = (
  | { kind: 'done'; outcome: SendOutcome; integration: OpenedIntegration }
  /**
   * Nothing was tried, and it does not count as an attempt. The message waits for a permit of the rate
   * limiter (`rate`), or for the integration to work again.
   */
  | { kind: 'deferred'; untilMs: number; reason: string; waitsFor: 'rate' | 'integration' }
) & {
  /** The integration that may have sent the message, now or before: the next attempt goes the same way. */
  ambiguousId?: string;
};

/**
 * Whether the channel's next integration may be tried. Not after this one may have sent the message, now or
 * at the last attempt (`wasAmbiguous`), unless it rejects its config. Not if the message or the address is
 * rejected for good. And not if the message only waits for a permit.
 */
export function mayFailOver(result: AttemptResult, wasAmbiguous = false): boolean {
  if (result.kind === 'deferred') return !wasAmbiguous && result.waitsFor === 'integration';
  const { outcome } = result;
  if (outcome.kind === 'retry') return !wasAmbiguous && !outcome.ambiguous;
  return outcome.kind === 'rejected' && (outcome.scope === 'config' || outcome.suspect === 'config');
}

/** The integration that may have sent the message: at this attempt, or still since an earlier one. */
export function ambiguousAfter(result: AttemptResult, before: string | undefined): string | undefined {
  if (result.kind === 'deferred') return before;
  const { outcome, integration } = result;
  if (outcome.kind !== 'retry') return undefined;
  return outcome.ambiguous ? integration.id : before;
}

/**
 * The result that counts, of those of the integrations in their order: one that ends the delivery, else the
 * first retry, else the earliest deferral, else the first rejection.
 */
export function decisiveResult(results: readonly AttemptResult[]): AttemptResult {
  const [first] = results;
  if (first === undefined) throw new Error('no integration was tried');
  const ending = results.find((one) => one.kind === 'done' && !mayFailOver(one));
  const retry = results.find((one) => one.kind === 'done' && one.outcome.kind === 'retry');
  return ending ?? retry ?? earliestDeferral(results) ?? first;
}

function earliestDeferral(results: readonly AttemptResult[]): AttemptResult | undefined {
  return results
    .filter((one) => one.kind === 'deferred')
    .reduce<Extract<AttemptResult, { kind: 'deferred' }> | undefined>(
      (earliest, one) => (earliest === undefined || one.untilMs < earliest.untilMs ? one : earliest),
      undefined,
    );
}
