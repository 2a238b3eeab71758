import { createHmac, type KeyObject } from 'node:crypto';
import type { SuppressionKind } from '../../../contract/suppression.ts';
import { identityValue } from './identities.ts';

/** An e-mail address or a phone number. */
export interface Address {
  kind: SuppressionKind;
  address: string;
}

/** Returns the normal form of an address: e-mail in lower case, phone number as E.164. */
export function canonicalAddress({ kind, address }: Address): string {
  return kind === 'email' ? identityValue('email', address) : `+${address.replace(/[^0-9]/g, '')}`;
}

/** Returns the value of suppressions.hash for an address in any spelling. */
export function addressHash(key: KeyObject, address: Address): Buffer {
  return createHmac('sha256', key)
    .update(`${address.kind}:${canonicalAddress(address)}`)
    .digest();
}
