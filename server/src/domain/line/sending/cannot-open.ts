import type { SendOutcome } from '../../../providers/provider.ts';

/**
 * The outcome where nothing was sent because this server cannot open what it needs. Later it may have the
 * key, or another server that has it makes the attempt.
 */
export function cannotOpen(
  what: 'config' | 'token' | 'installation',
  reason: string,
): Extract<SendOutcome, { kind: 'retry' }> {
  return { kind: 'retry', code: `${what}_unreadable`, reason, ambiguous: false };
}
