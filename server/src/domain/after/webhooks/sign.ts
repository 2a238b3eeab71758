import { createHmac, createSecretKey, randomBytes } from 'node:crypto';
import type { Sealer } from '../../../lib/seal.ts';

// The specification asks for 24 to 64 bytes.
const SECRET_BYTES = 32;
const PREFIX = 'whsec_';

/** A new secret to sign messages with. */
export function newSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64');
}

/** Returns the headers of a message. `body` has to be sent byte for byte. */
export type Sign = (message: { id: string; atMs: number; body: string }) => Record<string, string>;

/**
 * Signs messages by the rules of Standard Webhooks (https://www.standardwebhooks.com): with each of the
 * secrets, so that a receiver who has any of them can verify it.
 */
export function signer(secrets: readonly string[]): Sign {
  // Key objects: given bytes, Node makes one for each HMAC, which takes 17 µs instead of 3.
  const keys = secrets.map((secret) => createSecretKey(Buffer.from(secret.slice(PREFIX.length), 'base64')));
  return ({ id, atMs, body }) => {
    const timestamp = String(Math.floor(atMs / 1000));
    const content = `${id}.${timestamp}.${body}`;
    const signatures = keys.map((key) => `v1,${createHmac('sha256', key).update(content).digest('base64')}`);
    return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') };
  };
}

/** Seals a webhook's secret, and opens it. */
export function sealSecret(sealer: Sealer, webhookId: string, secret: string): Buffer {
  return sealer.seal(secret, secretPurpose(webhookId));
}

export function openSecret(sealer: Sealer, webhookId: string, sealed: Buffer): string {
  return sealer.open(sealed, secretPurpose(webhookId)).toString();
}

/** What a webhook's secret is sealed for. */
export function secretPurpose(webhookId: string): string {
  return `webhook:${webhookId}:secret`;
}
