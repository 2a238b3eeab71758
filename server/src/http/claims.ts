import { ClientError } from '../errors.ts';
import { isEmailAddress } from '../lib/email-address.ts';
import { isExternalId, MAX_EXTERNAL_ID_CHARACTERS } from '../lib/external-id.ts';
import type { Claims } from '../lib/jwt.ts';

/** The user of a request. With both, the external id decides; the address is stored for a new user. */
export interface NamedUser {
  externalId?: string;
  email?: string;
}

/**
 * Reads the user of a User JWT whose signature is verified. An invalid claim, also one that is null, is an
 * error, because with only the other claim the token could identify another user.
 */
export function readUserClaims(claims: Claims): NamedUser {
  const named: NamedUser = {};
  const problems: string[] = [];
  if (claims.user_external_id !== undefined) {
    const externalId = readExternalId(textOf(claims.user_external_id));
    if (externalId !== undefined) named.externalId = externalId;
    else problems.push(`The claim 'user_external_id' ${EXTERNAL_ID_RULE}`);
  }
  if (claims.user_email !== undefined) {
    const email = readEmail(textOf(claims.user_email));
    if (email !== undefined) named.email = email;
    else problems.push("The claim 'user_email' must be an e-mail address");
  }
  if (problems.length === 0 && named.externalId === undefined && named.email === undefined)
    problems.push('The token has no user: it needs a user_external_id or a user_email');
  if (problems.length > 0) throw new ClientError('jwt_auth_failed', problems);
  return named;
}

/** Reads the id of a Project JWT whose signature is verified. */
export function readProjectClaims({ role, jti }: Claims): { tokenId: string } {
  const problems: string[] = [];
  if (role !== 'project') problems.push("The claim 'role' must be 'project'");
  if (typeof jti !== 'string' || jti === '')
    problems.push("The claim 'jti' must be a string that is not empty");
  if (problems.length > 0) throw new ClientError('jwt_auth_failed', problems);
  return { tokenId: jti as string };
}

/**
 * The project of a token whose signature is not verified yet. A token with an `api_key` of any type is a User
 * JWT, whatever its other claims are.
 */
export function readIssuer({ api_key: apiKey, sub }: Claims): { apiKey: string } | { projectId: string } {
  if (apiKey !== undefined) {
    if (typeof apiKey !== 'string' || apiKey === '')
      throw new ClientError('jwt_auth_failed', ["The claim 'api_key' must be the project's API key"]);
    return { apiKey };
  }
  if (sub === undefined)
    throw new ClientError('jwt_auth_failed', [
      'The token has no project: a User JWT needs an api_key, a Project JWT a sub',
    ]);
  if (typeof sub !== 'string' || sub === '')
    throw new ClientError('jwt_auth_failed', ["The claim 'sub' must be the id of the project"]);
  return { projectId: sub };
}

export const EXTERNAL_ID_RULE =
  'must be a whole number or a string that is not blank, of at most ' +
  `${MAX_EXTERNAL_ID_CHARACTERS} characters, without U+0000 or half of a surrogate pair`;

/** Returns the text if it is a valid external id. */
export function readExternalId(text: string | undefined): string | undefined {
  return text !== undefined && isShort(text) && isExternalId(text) ? text : undefined;
}

/** Returns the text if it is an e-mail address. */
export function readEmail(text: string | undefined): string | undefined {
  return text !== undefined && isEmailAddress(text) ? text : undefined;
}

/** Rejects unsafe integers: parsing changes them, so that two users would share one id. */
function textOf(value: unknown): string | undefined {
  if (Number.isSafeInteger(value)) return String(value);
  return typeof value === 'string' ? value : undefined;
}

/** Counts characters as JSON Schema does, so that tokens and requests accept the same ids. */
function isShort(text: string): boolean {
  return (
    text.length <= MAX_EXTERNAL_ID_CHARACTERS ||
    (text.length <= 2 * MAX_EXTERNAL_ID_CHARACTERS && [...text].length <= MAX_EXTERNAL_ID_CHARACTERS)
  );
}
