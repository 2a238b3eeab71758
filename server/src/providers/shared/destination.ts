import type { SendOutcome } from '../provider.ts';

/**
 * Restricts the outcome of a message to an address that a user saved: it must not blame the integration.
 * Otherwise one user could stop all messages of the project by saving an address that responds with 403, or
 * an address in our own network.
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
 * Returns the parts of a webhook address that allow posting to it, so that they can be redacted from
 * responses. Parts under 16 characters are left out, because they may be ordinary words.
 */
export function secretsOfAddress(address: string): string[] {
  const url = URL.parse(address);
  if (url === null) return [address];
  const { href, pathname, search, searchParams } = url;
  const parts = [...pathname.split('/'), ...searchParams.values()].filter((part) => part.length >= 16);
  return [address, href, `${pathname}${search}`, ...parts];
}
