import type { SendOutcome } from '../provider.ts';

/**
 * The outcome of a message to an address that a user has saved. The response of such an address says nothing
 * of the integration: else one user could stop the project's messages to all others by saving an address that
 * responds with 403, or one within our own network.
 */
export function destinationOutcome(outcome: SendOutcome): SendOutcome {
  if (outcome.kind === 'rejected' && outcome.scope === 'config') {
    const { reason, code } = outcome;
    return code === 'EGRESS_REFUSED' || code === 'ERR_INVALID_URL'
      ? { kind: 'token_gone', scope: 'token', reason, code }
      : { ...outcome, scope: 'message' };
  }
  if (outcome.kind === 'sent') return outcome;
  const { suspect: _, ...rest } = outcome;
  return rest;
}

/**
 * What of an address lets its reader post there: not to be shown, should the address repeat it. Short parts
 * are words like any other.
 */
export function secretsOfAddress(address: string): string[] {
  const url = URL.parse(address);
  if (url === null) return [address];
  const { href, pathname, search, searchParams } = url;
  const parts = [...pathname.split('/'), ...searchParams.values()].filter((part) => part.length >= 16);
  return [address, href, `${pathname}${search}`, ...parts];
}
