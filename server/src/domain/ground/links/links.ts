import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { Tracking } from '../../../contract/tracking.ts';
import { bytesOfId, idOfBytes, isId } from '../../../lib/ids.ts';
import { type Referred, readReference, referenceOf } from './reference.ts';

/** The target of a tracked link, plain and encoded for a query. */
export interface Link {
  target: string;
  encoded: string;
}

/** The URLs of a tracked e-mail. */
export interface TrackedLinks {
  /** The public URL of the server. */
  publicUrl: string;
  /** Returns the URL that replaces a link, if clicks are tracked. */
  clickUrl?: (link: Link) => string;
  /** Returns the URL of the tracking image, if opens are tracked. */
  openUrl?: () => string;
}

/** A delivery with tracked links. */
export interface TrackedDelivery extends Referred {
  projectId: string;
  channel: TrackedChannel;
}

/** The channels with tracked links, and the letter of each in a token. */
const LETTERS = { email: 'e', web_push: 'w' } as const;
type TrackedChannel = keyof typeof LETTERS;

/**
 * Returns the tracked URLs of a delivery. Undefined if the project tracks nothing or PUBLIC_URL is not set.
 */
export function linksOf(
  { PUBLIC_URL }: { PUBLIC_URL: string | undefined },
  project: { id: string; signingKey: KeyObject },
  { opens, clicks }: Tracking,
  delivery: Omit<TrackedDelivery, 'projectId'>,
): TrackedLinks | undefined {
  if (PUBLIC_URL === undefined || !(opens || clicks)) return undefined;
  const at = urlsOf(PUBLIC_URL, project, delivery);
  return {
    publicUrl: PUBLIC_URL,
    ...(opens ? { openUrl: () => `${at('o', '')}.gif` } : {}),
    ...(clicks ? { clickUrl: ({ target, encoded }) => `${at('c', target)}?u=${encoded}` } : {}),
  };
}

/** Returns the URL that reports the click on a web push. Undefined if clicks are not tracked. */
export function pushClickUrl(
  { PUBLIC_URL }: { PUBLIC_URL: string | undefined },
  project: { id: string; signingKey: KeyObject },
  { clicks }: Tracking,
  delivery: Referred,
): string | undefined {
  if (PUBLIC_URL === undefined || !clicks) return undefined;
  return urlsOf(PUBLIC_URL, project, { ...delivery, channel: 'web_push' })('c', '');
}

function urlsOf(
  publicUrl: string,
  { id: projectId, signingKey }: { id: string; signingKey: KeyObject },
  delivery: Omit<TrackedDelivery, 'projectId'>,
): (kind: Kind, target: string) => string {
  const head = headOf({ ...delivery, projectId });
  return (kind, target) => `${publicUrl}/t/${kind}/${head}${macOf(signingKey, kind, head, target)}`;
}

/** `c`: a link was followed. `o`: the tracking image was loaded. */
export type Kind = 'c' | 'o';

/** The content of a token. `isSigned` verifies it with a key of the project. */
export interface ReadToken extends TrackedDelivery {
  isSigned(key: KeyObject, kind: Kind, target: string): boolean;
}

/** Parses the token of a tracked URL. Returns undefined if it is malformed. Does not verify the signature. */
export function readTrackedToken(token: string): ReadToken | undefined {
  if (!TOKEN.test(token)) return undefined;
  const head = token.slice(0, HEAD_CHARACTERS);
  const projectId = idOfBytes(Buffer.from(head.slice(1, 1 + ID_CHARACTERS), 'base64url'));
  const referred = readReference(head.slice(1 + ID_CHARACTERS));
  if (!isId(projectId) || referred === undefined) return undefined;
  const mac = Buffer.from(token.slice(HEAD_CHARACTERS));
  return {
    ...referred,
    projectId,
    channel: token.startsWith(LETTERS.email) ? 'email' : 'web_push',
    isSigned: (key, kind, target) => timingSafeEqual(mac, Buffer.from(macOf(key, kind, head, target))),
  };
}

const ID_CHARACTERS = 22;
const HEAD_CHARACTERS = 1 + ID_CHARACTERS + 43;
const MAC_CHARACTERS = 22; // of 6 bits each
const TOKEN = /^[ew][\w-]{87}$/;

function headOf({ projectId, channel, ...referred }: TrackedDelivery): string {
  return `${LETTERS[channel]}${bytesOfId(projectId).toString('base64url')}${referenceOf(referred)}`;
}

// The prefix `track` separates these signatures from others of the same key. The target comes last because it
// has no fixed length.
function macOf(key: KeyObject, kind: Kind, head: string, target: string): string {
  return createHmac('sha256', key)
    .update(`track ${kind} ${head} ${target}`)
    .digest('base64url')
    .slice(0, MAC_CHARACTERS);
}
