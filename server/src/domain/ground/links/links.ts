import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { Tracking } from '../../../contract/tracking.ts';
import { isId } from '../../../lib/ids.ts';
import { type Referred, readReference, referenceOf } from './reference.ts';

/** A link that leads over the server: where to, and the same as it stands in a query. */
export interface Link {
  target: string;
  encoded: string;
}

/** The addresses that make an e-mail a tracked one. */
export interface TrackedLinks {
  /** Where the server is reached. */
  publicUrl: string;
  /** The address in the place of a link's, where clicks are tracked. */
  clickUrl?: (link: Link) => string;
  /** The address of the picture, where opens are. */
  openUrl?: () => string;
}

/** A delivery whose links are tracked. */
export interface TrackedDelivery extends Referred {
  projectId: string;
  channel: TrackedChannel;
}

/** The channels that have tracked links, each with its letter in them. */
const LETTERS = { email: 'e', web_push: 'w' } as const;
type TrackedChannel = keyof typeof LETTERS;

/**
 * The tracked addresses of a delivery, as far as the project wants to know; undefined where it does not, and
 * where the server does not know its own address.
 */
export function linksOf(
  { PUBLIC_URL }: { PUBLIC_URL: string | undefined },
  project: { id: string; signingKey: KeyObject },
  { opens, clicks }: Tracking,
  delivery: Omit<TrackedDelivery, 'projectId'>,
): TrackedLinks | undefined {
  if (PUBLIC_URL === undefined || !(opens || clicks)) return undefined;
  const at = addressesOf(PUBLIC_URL, project, delivery);
  return {
    publicUrl: PUBLIC_URL,
    ...(opens ? { openUrl: () => `${at('o', '')}.gif` } : {}),
    ...(clicks ? { clickUrl: ({ target, encoded }) => `${at('c', target)}?u=${encoded}` } : {}),
  };
}

/** The address that the click on a web push is told to; undefined where nobody wants to know. */
export function pushClickUrl(
  { PUBLIC_URL }: { PUBLIC_URL: string | undefined },
  project: { id: string; signingKey: KeyObject },
  { clicks }: Tracking,
  delivery: Referred,
): string | undefined {
  if (PUBLIC_URL === undefined || !clicks) return undefined;
  return addressesOf(PUBLIC_URL, project, { ...delivery, channel: 'web_push' })('c', '');
}

function addressesOf(
  publicUrl: string,
  { id: projectId, signingKey }: { id: string; signingKey: KeyObject },
  delivery: Omit<TrackedDelivery, 'projectId'>,
): (kind: Kind, target: string) => string {
  const head = headOf({ ...delivery, projectId });
  return (kind, target) => `${publicUrl}/t/${kind}/${head}${macOf(signingKey, kind, head, target)}`;
}

/** `c`: a link was followed. `o`: the picture was loaded. */
export type Kind = 'c' | 'o';

/** What a token says, and whether the project's key says so, too. */
export interface ReadToken extends TrackedDelivery {
  isSigned(key: KeyObject, kind: Kind, target: string): boolean;
}

/**
 * Reads the token of a tracked address; undefined for what is none. Who has signed it is still to be asked.
 */
export function readTrackedToken(token: string): ReadToken | undefined {
  if (!TOKEN.test(token)) return undefined;
  const head = token.slice(0, HEAD_CHARACTERS);
  const projectId = idOf(head.slice(1, 1 + ID_CHARACTERS));
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
  const project = Buffer.from(projectId.replaceAll('-', ''), 'hex').toString('base64url');
  return `${LETTERS[channel]}${project}${referenceOf(referred)}`;
}

function idOf(text: string): string {
  const hex = Buffer.from(text, 'base64url').toString('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

// The same key signs other things, none of which begins with this word. What follows the head has no fixed
// length, and is the last.
function macOf(key: KeyObject, kind: Kind, head: string, target: string): string {
  return createHmac('sha256', key)
    .update(`track ${kind} ${head} ${target}`)
    .digest('base64url')
    .slice(0, MAC_CHARACTERS);
}
