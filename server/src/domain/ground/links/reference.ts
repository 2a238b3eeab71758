/**
 * What a message carries so that a receipt finds its delivery: 43 characters of base64url, the broadcast's id
 * and the user's. The notification's id does not do: it is made of both, and neither can be had back from it.
 */
export function referenceOf({ broadcastId, userId }: Referred): string {
  return Buffer.concat([bytesOf(broadcastId), bytesOf(userId)]).toString('base64url');
}

/**
 * Whom a reference means; undefined for a text that is none. What it says is not proven: who signed the
 * receipt has to be.
 */
export function readReference(text: string): Referred | undefined {
  if (!REFERENCE.test(text)) return undefined;
  const hex = Buffer.from(text, 'base64url').toString('hex');
  return { broadcastId: idOf(hex.slice(0, 32)), userId: idOf(hex.slice(32)) };
}

/** What a delivery is found by, beside its channel. */
export interface Referred {
  broadcastId: string;
  userId: string;
}

// The last character has two bits to spare, which are zero: one text for each reference.
const REFERENCE = /^[\w-]{42}[AEIMQUYcgkosw048]$/;

function bytesOf(id: string): Buffer {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}

function idOf(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
