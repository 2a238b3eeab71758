import { ClientError } from '../errors.ts';
import { readEmail } from '../lib/email-address.ts';
import { EXTERNAL_ID_RULE, readExternalId } from '../lib/external-id.ts';
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
    const externalId = readExternalId(claims.user_external_id);
    if (externalId !== undefined) named.externalId = externalId;
    else problems.push(`The claim 'user_external_id' ${EXTERNAL_ID_RULE}`);
  }
  if (claims.user_email !== undefined) {
    const email = readEmail(claims.user_email);
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
