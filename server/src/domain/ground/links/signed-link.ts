import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { Config } from '../../../config.ts';
import { isId } from '../../../lib/ids.ts';

/** What a link is for. A token of one is not valid for another. */
type Purpose = 'unsubscribe' | 'preferences';

/** The content of a signed link. */
export interface LinkContent {
  projectId: string;
  userId: string;
  text: string;
}

/** Former keys are valid, expired ones too: an e-mail may be older than the current key. */
interface Projects {
  byId(id: string): LinkSigner | undefined | Promise<LinkSigner | undefined>;
}
type LinkSigner = { signingKeys: readonly { key: KeyObject }[] };

/** Returns the public URL of a link, which needs no login and does not expire. */
export function signedUrl(
  config: Config,
  signingKey: KeyObject,
  purpose: Purpose,
  content: LinkContent,
): string {
  const base = config.PUBLIC_URL ?? `http://${config.HOST}:${config.PORT}`;
  return `${base}/${purpose}/${signedToken(signingKey, purpose, content)}`;
}

/** Returns a token: version, project, user and text, followed by 128 bits of HMAC-SHA256 over them. */
export function signedToken(
  signingKey: KeyObject,
  purpose: Purpose,
  { projectId, userId, text }: LinkContent,
): string {
  const body = Buffer.concat([
    Buffer.of(VERSION),
    uuidBytes(projectId),
    uuidBytes(userId),
    Buffer.from(text),
  ]);
  return Buffer.concat([body, sign(signingKey, purpose, body)]).toString('base64url');
}

/** Verifies a token and returns its content. Undefined if it was not signed by the project that it names. */
export async function readSignedToken(
  projects: Projects,
  purpose: Purpose,
  token: string,
): Promise<LinkContent | undefined> {
  if (!/^[A-Za-z0-9_-]{66,600}$/.test(token)) return undefined;
  const bytes = Buffer.from(token, 'base64url');
  const body = bytes.subarray(0, -MAC_BYTES);
  const projectId = uuidText(body.subarray(1, 17));
  const userId = uuidText(body.subarray(17, 33));
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

function uuidBytes(id: string): Buffer {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}

function uuidText(bytes: Buffer): string {
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
