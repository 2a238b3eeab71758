import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { Config } from '../../../config.ts';
import { isId } from '../../../lib/ids.ts';
import { storedKey } from './stored-key.ts';

/** The content of an unsubscribe link. */
export interface Unsubscription {
  projectId: string;
  userId: string;
  /** Null for notifications without a category. */
  category: string | null;
  channel: string;
}

/**
 * Returns the public URL that unsubscribes a user from a category on a channel. It needs no login and does
 * not expire: an e-mail may be read years later.
 */
export function unsubscribeUrl(
  config: Config,
  project: { id: string; signingKey: KeyObject },
  { userId, category, channel }: { userId: string; category: string | null; channel: string },
): string {
  const base = config.PUBLIC_URL ?? `http://${config.HOST}:${config.PORT}`;
  const what = { projectId: project.id, userId, channel, category };
  return `${base}/unsubscribe/${unsubscribeToken(project.signingKey, what)}`;
}

/**
 * Returns the signed token of a link: version, project, user, channel and category, followed by 128 bits of
 * HMAC-SHA256 over them.
 */
export function unsubscribeToken(
  signingKey: KeyObject,
  { projectId, userId, channel, category }: Unsubscription,
): string {
  const body = Buffer.concat([
    Buffer.of(VERSION),
    uuidBytes(projectId),
    uuidBytes(userId),
    Buffer.from(`${channel} ${storedKey(category)}`),
  ]);
  return Buffer.concat([body, sign(signingKey, body)]).toString('base64url');
}

/** Verifies a token and returns its content. Undefined if it was not signed by the project that it names. */
export async function readUnsubscribeToken(
  projects: {
    byId(id: string): LinkSigner | undefined | Promise<LinkSigner | undefined>;
  },
  token: string,
): Promise<Unsubscription | undefined> {
  if (!/^[A-Za-z0-9_-]{70,600}$/.test(token)) return undefined;
  const bytes = Buffer.from(token, 'base64url');
  const body = bytes.subarray(0, -MAC_BYTES);
  const projectId = uuidText(body.subarray(1, 17));
  const userId = uuidText(body.subarray(17, 33));
  if (body[0] !== VERSION || !isId(projectId) || !isId(userId)) return undefined;
  const project = await projects.byId(projectId);
  const mac = bytes.subarray(-MAC_BYTES);
  if (!project?.signingKeys.some(({ key }) => timingSafeEqual(sign(key, body), mac))) return undefined;
  const [channel = '', category = ''] = body.toString('utf8', 33).split(' ');
  return { projectId, userId, channel, category: category === storedKey(null) ? null : category };
}

/** Former keys are valid, expired ones too: an e-mail may be older than the current key. */
type LinkSigner = { signingKeys: readonly { key: KeyObject }[] };

const VERSION = 1;
const MAC_BYTES = 16;

// The same key signs Project JWTs, whose signed text begins with 'eyJ', so neither is valid as the other.
function sign(key: KeyObject, body: Buffer): Buffer {
  return createHmac('sha256', key).update('unsubscribe').update(body).digest().subarray(0, MAC_BYTES);
}

function uuidBytes(id: string): Buffer {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}

function uuidText(bytes: Buffer): string {
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
