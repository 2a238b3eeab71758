import type { KeyObject } from 'node:crypto';
import type { Config } from '../../../config.ts';
import { readSignedToken, signedToken, signedUrl } from './signed-link.ts';
import { UNCATEGORIZED } from './stored-key.ts';

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
  project: { id: string; signingKey: KeyObject },
  { userId, category }: { userId: string; category?: string | null },
): string {
  const content = contentOf({
    projectId: project.id,
    userId,
    category: category === null ? UNCATEGORIZED : category,
  });
  return signedUrl(config, project.signingKey, 'preferences', content);
}

/** Returns the signed token of a link. */
export function preferencesToken(signingKey: KeyObject, link: PreferencesLink): string {
  return signedToken(signingKey, 'preferences', contentOf(link));
}

function contentOf({ projectId, userId, category = '' }: PreferencesLink) {
  return { projectId, userId, text: category };
}

/** Verifies a token and returns its content. Undefined if it was not signed by the project that it names. */
export async function readPreferencesToken(
  projects: Parameters<typeof readSignedToken>[0],
  token: string,
): Promise<PreferencesLink | undefined> {
  const content = await readSignedToken(projects, 'preferences', token);
  if (content === undefined) return undefined;
  const { projectId, userId, text } = content;
  return { projectId, userId, ...(text === '' ? {} : { category: text }) };
}
