import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { Config } from '../../../config.ts';
import { bytesOfId, idOfBytes } from '../../../lib/ids.ts';

/**
 * Returns the reference that a message carries so that a receipt finds its delivery: the ids of broadcast and
 * user as 43 characters of base64url. They cannot be derived from the notification's id, which is a hash.
 */
export function referenceOf({ broadcastId, userId }: Referred): string {
  return Buffer.concat([bytesOfId(broadcastId), bytesOfId(userId)]).toString('base64url');
}

/**
 * Parses a reference. Returns undefined if it is malformed. A reference is not signed: verify the receipt.
 */
export function readReference(text: string): Referred | undefined {
  if (!REFERENCE.test(text)) return undefined;
  const bytes = Buffer.from(text, 'base64url');
  return { broadcastId: idOfBytes(bytes.subarray(0, 16)), userId: idOfBytes(bytes.subarray(16)) };
}

/** Identifies a delivery, together with its channel. */
export interface Referred {
  broadcastId: string;
  userId: string;
}

// The last two bits are unused and zero, so each reference has one spelling.
const REFERENCE = /^[\w-]{42}[AEIMQUYcgkosw048]$/;

/**
 * Returns the URL at which a vendor reports the status of one message, for vendors that take a URL with each
 * message. Its token authenticates the vendor. Undefined if PUBLIC_URL is not set.
 */
export function receiptUrl(
  { PUBLIC_URL }: Pick<Config, 'PUBLIC_URL'>,
  { signingKey }: { signingKey: KeyObject },
  { id, provider }: { id: string; provider: string },
  reference: string,
): string | undefined {
  if (PUBLIC_URL === undefined) return undefined;
  const token = reference + macOf(signingKey, id, reference).toString('base64url');
  const base = PUBLIC_URL.replace(/\/+$/, '');
  return `${base}/v2/integrations/${provider}/webhooks/incoming/${id}?token=${token}`;
}

/**
 * Returns the reference in the token of a receipt URL. Undefined if it was not signed for this integration.
 * Former keys are valid, expired ones too: vendors report for days.
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

// The prefix `receipt` separates these signatures from others of the same key.
function macOf(key: KeyObject, integrationId: string, reference: string): Buffer {
  return createHmac('sha256', key)
    .update(`receipt ${integrationId} ${reference}`)
    .digest()
    .subarray(0, MAC_BYTES);
}
