/**
 * Returns the reference that a message carries so that a receipt finds its delivery: the ids of broadcast and
 * user as 43 characters of base64url. They cannot be derived from the notification's id, which is a hash.
 */
export function referenceOf({ broadcastId, userId }: Referred): string {
  return Buffer.concat([bytesOf(broadcastId), bytesOf(userId)]).toString('base64url');
}

/**
 * Parses a reference. Returns undefined if it is malformed. A reference is not signed: verify the receipt.
 */
export function readReference(text: string): Referred | undefined {
  if (!REFERENCE.test(text)) return undefined;
  const hex = Buffer.from(text, 'base64url').toString('hex');
  return { broadcastId: idOf(hex.slice(0, 32)), userId: idOf(hex.slice(32)) };
}

/** Identifies a delivery, together with its channel. */
export interface Referred {
  broadcastId: string;
  userId: string;
}

// The last two bits are unused and zero, so each reference has one spelling.
const REFERENCE = /^[\w-]{42}[AEIMQUYcgkosw048]$/;

function bytesOf(id: string): Buffer {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}

function idOf(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
