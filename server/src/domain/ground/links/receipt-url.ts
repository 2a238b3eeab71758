import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { Config } from '../../../config.ts';
import { readReference } from './reference.ts';

/**
 * The address at which a vendor can report on one message, for vendors that are told one with each. Nobody
 * can guess it, so who calls it is the vendor, or somebody whom the vendor has told. Undefined where the
 * server is not known to the internet.
 */
export function receiptUrl(
  { PUBLIC_URL }: Pick<Config, 'PUBLIC_URL'>,
  { signingKey }: { signingKey: KeyObject },
  { id, provider }: { id: string; provider: string },
  reference: string,
): string | undefined {
  if (PUBLIC_URL === undefined) return undefined;
  const token = reference + macOf(signingKey, id, reference).toString('base64url');
  return `${PUBLIC_URL.replace(/\/+$/, '')}/v2/integrations/${provider}/webhooks/incoming/${id}?token=${token}`;
}

/**
 * The reference that the token of such an address holds; undefined when it is not one that was made for this
 * integration of the project. Former keys count too, also ended ones: vendors report for days.
 */
export function readReceiptToken(
  signingKeys: readonly { readonly key: KeyObject }[],
  id: string,
  token: string,
): string | undefined {
  const reference = token.slice(0, REFERENCE_CHARACTERS);
  const mac = Buffer.from(token.slice(REFERENCE_CHARACTERS), 'base64url');
  if (mac.length !== MAC_BYTES || readReference(reference) === undefined) return undefined;
  const isSigned = signingKeys.some(({ key }) => timingSafeEqual(mac, macOf(key, id, reference)));
  return isSigned ? reference : undefined;
}

const REFERENCE_CHARACTERS = 43;
const MAC_BYTES = 16;

// The same key signs other things, none of which begins with this word.
function macOf(key: KeyObject, integrationId: string, reference: string): Buffer {
  return createHmac('sha256', key)
    .update(`receipt ${integrationId} ${reference}`)
    .digest()
    .subarray(0, MAC_BYTES);
}
