import { createHmac, type KeyObject } from 'node:crypto';
import type { SuppressionKind } from '../../../contract/suppression.ts';
import { identityValue } from './identities.ts';

/** Where somebody is reached by e-mail or SMS. */
export interface Address {
  kind: SuppressionKind;
  address: string;
}

/**
 * The one spelling of an address: an e-mail address as users are found by it, a phone number as E.164 has it.
 */
export function canonicalAddress({ kind, address }: Address): string {
  return kind === 'email' ? identityValue('email', address) : `+${address.replace(/[^0-9]/g, '')}`;
}

/** What suppressions.hash holds of an address in whatever spelling. */
export function addressHash(key: KeyObject, address: Address): Buffer {
  return createHmac('sha256', key)
    .update(`${address.kind}:${canonicalAddress(address)}`)
    .digest();
}
