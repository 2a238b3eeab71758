import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { Config } from '../../../config.ts';
import { UNCATEGORIZED } from '../../../contract/category.ts';
import { bytesOfId, idOfBytes, isId } from '../../../lib/ids.ts';

/** What a link is for. A token of one is not valid for another. */
type Purpose = 'unsubscribe' | 'preferences';

/** The content of a signed link. */
interface LinkContent {
  projectId: string;
  userId: string;
  text: string;
}

/** Former keys are valid, expired ones too: an e-mail may be older than the current key. */
interface Projects {
  byId(id: string): LinkSigner | undefined | Promise<LinkSigner | undefined>;
}
type LinkSigner = { signingKeys: readonly { key: KeyObject }[] };

/** The content of an unsubscribe link. */
export interface Unsubscription {
  projectId: string;
  userId: string;
  /** Null for notifications without a category. */
  category: string | null;
  channel: string;
}

/** Returns the public URL that unsubscribes a user from a category on a channel. */
export function unsubscribeUrl(
  config: Config,
  { id: projectId, signingKey }: { id: string; signingKey: KeyObject },
  about: Omit<Unsubscription, 'projectId'>,
): string {
  return urlOf(config, 'unsubscribe', unsubscribeToken(signingKey, { projectId, ...about }));
}

/** Returns the signed token of a link. */
export function unsubscribeToken(
  signingKey: KeyObject,
  { channel, category, ...of }: Unsubscription,
): string {
  return signedToken(signingKey, 'unsubscribe', { ...of, text: `${channel} ${category ?? ''}` });
}

/** Verifies a token and returns its content. Undefined if it was not signed by the project that it names. */
export async function readUnsubscribeToken(
  projects: Projects,
  token: string,
): Promise<Unsubscription | undefined> {
  const content = await readSignedToken(projects, 'unsubscribe', token);
  if (content === undefined) return undefined;
  const { projectId, userId, text } = content;
  const [channel = '', category = ''] = text.split(' ');
  return { projectId, userId, channel, category: category === '' ? null : category };
}

/** The content of a link to the preferences of a user. */
export interface PreferencesLink {
  projectId: string;
  userId: string;
  /** The category of the message that has the link. The page also lists it if it is not configured. */
  category?: string | undefined;
}

/**
 * Returns the public URL of the page on which a user changes preferences. Pass the category of the message
 * that the link is for, `null` if it has none.
 */
export function preferencesUrl(
  config: Config,
  { id: projectId, signingKey }: { id: string; signingKey: KeyObject },
  { userId, category }: { userId: string; category?: string | null },
): string {
  const link = { projectId, userId, category: category === null ? UNCATEGORIZED : category };
  return urlOf(config, 'preferences', preferencesToken(signingKey, link));
}

/** Returns the signed token of a link. */
export function preferencesToken(
  signingKey: KeyObject,
  { projectId, userId, category = '' }: PreferencesLink,
): string {
  return signedToken(signingKey, 'preferences', { projectId, userId, text: category });
}

/** Verifies a token and returns its content. Undefined if it was not signed by the project that it names. */
export async function readPreferencesToken(
  projects: Projects,
  token: string,
): Promise<PreferencesLink | undefined> {
  const content = await readSignedToken(projects, 'preferences', token);
  if (content === undefined) return undefined;
  const { projectId, userId, text } = content;
  return { projectId, userId, ...(text === '' ? {} : { category: text }) };
}

/** Returns the public URL of a link, which needs no login and does not expire. */
function urlOf({ PUBLIC_URL, HOST, PORT }: Config, purpose: Purpose, token: string): string {
  return `${PUBLIC_URL ?? `http://${HOST}:${PORT}`}/${purpose}/${token}`;
}

/** Returns a token: version, project, user and text, followed by 128 bits of HMAC-SHA256 over them. */
function signedToken(
  signingKey: KeyObject,
  purpose: Purpose,
  { projectId, userId, text }: LinkContent,
): string {
  const body = Buffer.concat([
    Buffer.of(VERSION),
    bytesOfId(projectId),
    bytesOfId(userId),
    Buffer.from(text),
  ]);
  return Buffer.concat([body, sign(signingKey, purpose, body)]).toString('base64url');
}

/** Verifies a token and returns its content. Undefined if it was not signed by the project that it names. */
async function readSignedToken(
  projects: Projects,
  purpose: Purpose,
  token: string,
): Promise<LinkContent | undefined> {
  if (!/^[A-Za-z0-9_-]{66,600}$/.test(token)) return undefined;
  const bytes = Buffer.from(token, 'base64url');
  const body = bytes.subarray(0, -MAC_BYTES);
  const projectId = idOfBytes(body.subarray(1, 17));
  const userId = idOfBytes(body.subarray(17, 33));
  if (body[0] !== VERSION || !isId(projectId) || !isId(userId)) return undefined;
  const project = await projects.byId(projectId);
  const mac = bytes.subarray(-MAC_BYTES);
  if (!project?.signingKeys.some(({ key }) => timingSafeEqual(sign(key, purpose, body), mac)))
    return undefined;
  return { projectId, userId, text: body.toString('utf8', 33) };
}

const VERSION = 1;
const MAC_BYTES = 16;

// The same key signs Project JWTs, whose signed text begins with 'eyJ', so neither is valid as the other.
function sign(key: KeyObject, purpose: Purpose, body: Buffer): Buffer {
  return createHmac('sha256', key).update(purpose).update(body).digest().subarray(0, MAC_BYTES);
}
