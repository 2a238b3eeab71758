import type { KeyObject } from 'node:crypto';
import type { Config } from '../../../config.ts';
import { readSignedToken, signedToken, signedUrl } from './signed-link.ts';
import { storedKey } from './stored-key.ts';

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
  project: { id: string; signingKey: KeyObject },
  about: Omit<Unsubscription, 'projectId'>,
): string {
  return signedUrl(config, project.signingKey, 'unsubscribe', contentOf({ projectId: project.id, ...about }));
}

/** Returns the signed token of a link. */
export function unsubscribeToken(signingKey: KeyObject, unsubscription: Unsubscription): string {
  return signedToken(signingKey, 'unsubscribe', contentOf(unsubscription));
}

function contentOf({ projectId, userId, channel, category }: Unsubscription) {
  return { projectId, userId, text: `${channel} ${storedKey(category)}` };
}

/** Verifies a token and returns its content. Undefined if it was not signed by the project that it names. */
export async function readUnsubscribeToken(
  projects: Parameters<typeof readSignedToken>[0],
  token: string,
): Promise<Unsubscription | undefined> {
  const content = await readSignedToken(projects, 'unsubscribe', token);
  if (content === undefined) return undefined;
  const { projectId, userId, text } = content;
  const [channel = '', category = ''] = text.split(' ');
  return { projectId, userId, channel, category: category === storedKey(null) ? null : category };
}
