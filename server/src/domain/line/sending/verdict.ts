import type { SendOutcome } from '../../../providers/provider.ts';
import type { Verdict } from './breaker.ts';

/**
 * What the end of one send says of its integration. A message with an override for the provider may itself be
 * what is refused, so its refusal blames nobody else; nor does that of a single message or address, for which
 * the vendor need not even have been asked.
 */
export function verdictOf(outcome: SendOutcome, { overridden }: { overridden: boolean }): Verdict {
  switch (outcome.kind) {
    case 'sent':
      return 'works';
    case 'rejected': // one that may be the recipient's fault: see `mayBeConfig`
      return outcome.scope === 'config' && !overridden ? 'refuses' : 'unclear';
    case 'retry':
      return hasAnswered(outcome) ? 'unclear' : 'silent';
    case 'token_gone':
      // Some tokens are seen to be none without asking the vendor.
      return 'unclear';
  }
}

/** Whether a wrong setting may have caused the failure, but the recipient as well. */
export function mayBeConfig(outcome: SendOutcome): boolean {
  return outcome.kind === 'rejected' && outcome.scope !== 'config' && outcome.suspect === 'config';
}

/**
 * "Later" may be an answer: too many at once, or not to this mailbox now. A thousand of those in a row do not
 * mean that the integration is down. Vendors say it by a status of 4xx (HTTP and SMTP alike), by naming a
 * time, or in their own word for it.
 */
function hasAnswered({
  ambiguous,
  code = '',
  retryAfterMs,
}: Extract<SendOutcome, { kind: 'retry' }>): boolean {
  if (ambiguous) return false;
  return retryAfterMs !== undefined || /^4\d\d\b/.test(code) || ANSWERS.test(code);
}

/** Too often, that is; or with a key that has to be renewed first. */
const ANSWERS = /rate|limit|thrott|quota|exhausted|too_?many|expired|^20429$/i;
