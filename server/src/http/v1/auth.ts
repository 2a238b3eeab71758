import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { identifyUser } from '../../domain/people/users/identify.ts';
import type { Project } from '../../domain/setup/projects/cache.ts';
import type { ProjectKey } from '../../domain/setup/projects/keys.ts';
import { ClientError, type ErrorCode } from '../../errors.ts';
import { readEmail } from '../../lib/email-address.ts';
import { EXTERNAL_ID_RULE, readExternalId } from '../../lib/external-id.ts';
import type {
  Authenticator,
  AuthenticatorDeps,
  Caller,
  Credential,
  ProjectCaller,
  UserCaller,
} from '../auth.ts';
import { brandHeader } from '../brand.ts';
import type { NamedUser } from '../claims.ts';

/**
 * An authenticator for the headers of v1: `X-<BRAND>-API-KEY` with the API secret for a project, or with a
 * user and its HMAC for a user. `bearer` authenticates a JWT in `Authorization`. A Project JWT may stand for
 * the API key and secret, and acts for the user in the headers if there is one.
 */
export function createHeaderAuthenticator(
  deps: AuthenticatorDeps & { brand: string },
  bearer: Authenticator,
): Authenticator {
  const { brand, projects, clock, keyUses, lastSeen } = deps;
  const readHeaders = headerReader(brand);

  async function authenticate(headers: IncomingHttpHeaders, wanted?: Caller['kind']): Promise<Caller> {
    const given = readHeaders(headers);
    const usesHeaders = given.apiSecret !== undefined || (given.apiKey !== undefined && given.hasUser);
    if (headers.authorization !== undefined && !usesHeaders) {
      const caller = await bearer(headers);
      if (given.apiKey !== undefined && given.apiKey !== caller.project.apiKey)
        throw refused('incorrect_api_key');
      if (!given.hasUser || wanted === 'project') return caller;
      if (caller.kind === 'user') throw refused('api_key_not_provided');
      return userOf(caller.project, readUser(given, brand), {
        credential: actingCredential(caller),
        hasProjectRights: true,
      });
    }
    if (given.apiKey === undefined) throw refused('api_key_not_provided');
    const project = await projects.byApiKey(given.apiKey);
    if (project === undefined) throw refused('incorrect_api_key');
    const secret = given.apiSecret === undefined ? undefined : await secretKey(project, given.apiSecret);
    const kind = wanted ?? (given.hasUser ? 'user' : 'project');
    return kind === 'project' ? projectCaller(project, secret) : userCaller(project, secret, given);
  }

  /** The key that equals the given secret. Throws if none does. */
  async function secretKey(project: Project, given: string): Promise<ProjectKey> {
    const key = await findKey(project, (secret) => equal(secret.export(), Buffer.from(given)));
    if (key === undefined) throw refused('api_secret_is_incorrect');
    return key;
  }

  function projectCaller(project: Project, secret: ProjectKey | undefined): Caller {
    if (secret === undefined) throw refused('api_secret_not_provided');
    keyUses.note(secret);
    return { kind: 'project', project, tokenId: project.id, credential: credentialOf(secret) };
  }

  async function userCaller(
    project: Project,
    secret: ProjectKey | undefined,
    given: GivenHeaders,
  ): Promise<UserCaller> {
    const named = readUser(given, brand);
    const key = secret ?? (await hmacKey(project, named, given.hmac));
    // The HMAC of an external id does not prove the address beside it, which may be that of another user.
    if (secret === undefined && key !== undefined && named.externalId !== undefined) delete named.email;
    if (key !== undefined) keyUses.note(key);
    return userOf(project, named, {
      credential: credentialOf(key ?? project.apiSecrets[0]),
      hasProjectRights: secret !== undefined,
    });
  }

  async function userOf(
    project: Project,
    named: NamedUser,
    rights: Pick<UserCaller, 'credential' | 'hasProjectRights'>,
  ): Promise<UserCaller> {
    const { userId } = await identifyUser(deps, project.id, named);
    lastSeen.note(userId);
    return { kind: 'user', project, userId, ...rights };
  }

  /** The key that made the HMAC of the user; undefined if there is no HMAC and the project needs none. */
  async function hmacKey(
    project: Project,
    { externalId, email }: NamedUser,
    hmac: string | undefined,
  ): Promise<ProjectKey | undefined> {
    if (hmac === undefined) {
      if (project.hmacRequired) throw refused('neither_user_hmac_nor_api_secret_provided');
      return undefined;
    }
    const name = externalId ?? email ?? '';
    const digest = Buffer.from(hmac, 'base64');
    const key = await findKey(project, (secret) =>
      equal(createHmac('sha256', secret).update(name).digest(), digest),
    );
    if (key === undefined) throw refused('hmac_not_a_match');
    return key;
  }

  /** The key for which `matches` returns true; another node may just have rolled it. */
  async function findKey(
    project: Project,
    matches: (secret: KeyObject) => boolean,
  ): Promise<ProjectKey | undefined> {
    const among = ({ apiSecrets }: Project) =>
      apiSecrets.find(({ key, validUntilMs }) => validUntilMs > clock.now() && matches(key));
    const found = among(project);
    if (found !== undefined) return found;
    const newer = await projects.newerThan(project);
    return newer === undefined || newer === project ? undefined : among(newer);
  }

  return authenticate;
}

interface GivenHeaders {
  apiKey: string | undefined;
  apiSecret: string | undefined;
  externalId: string | undefined;
  email: string | undefined;
  hmac: string | undefined;
  hasUser: boolean;
}

function headerReader(brand: string): (headers: IncomingHttpHeaders) => GivenHeaders {
  const apiKey = brandHeader(brand, 'api-key');
  const apiSecret = brandHeader(brand, 'api-secret');
  const externalId = brandHeader(brand, 'user-external-id');
  const email = brandHeader(brand, 'user-email');
  const hmac = brandHeader(brand, 'user-hmac');
  return (headers) => {
    const named = { externalId: externalId(headers), email: email(headers) };
    return {
      apiKey: apiKey(headers),
      apiSecret: apiSecret(headers),
      externalId: named.externalId && utf8(named.externalId),
      email: named.email && utf8(named.email),
      hmac: hmac(headers)?.trim(),
      hasUser: named.externalId !== undefined || named.email !== undefined,
    };
  };
}

/**
 * The user that the headers name; the external id wins. An invalid external id is an error, because the
 * address may be that of another user. An invalid address is only one if there is no external id.
 */
function readUser({ externalId, email, hasUser }: GivenHeaders, brand: string): NamedUser {
  const header = (name: string) => `Header 'X-${brand.toUpperCase()}-USER-${name}'`;
  if (!hasUser) throw refused('user_email_not_provided');
  const named: NamedUser = {};
  const problems: string[] = [];
  if (externalId !== undefined) {
    const read = readExternalId(externalId);
    if (read === undefined) problems.push(`${header('EXTERNAL-ID')} ${EXTERNAL_ID_RULE}`);
    else named.externalId = read;
  }
  if (email !== undefined) {
    const read = readEmail(email);
    if (read !== undefined) named.email = read;
    else if (named.externalId === undefined) problems.push(`${header('EMAIL')} must be an e-mail address`);
  }
  if (problems.length > 0) throw new ClientError('user_email_not_provided', problems);
  return named;
}

/** Node decodes headers as Latin-1. Returns the text as UTF-8 if its bytes are valid UTF-8. */
function utf8(header: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(header, 'latin1'));
  } catch {
    return header;
  }
}

function equal(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

/** The credential of a user for whom a Project JWT acts. The API secret signs tokens of the user. */
function actingCredential({ project, tokenId, credential }: ProjectCaller): Credential {
  const actingToken = { id: tokenId, keyId: credential.key.id };
  return { expiresAtMs: credential.expiresAtMs, key: project.apiSecrets[0], actingToken };
}

function credentialOf(key: ProjectKey): Credential {
  return { expiresAtMs: key.validUntilMs, key };
}

function refused(code: ErrorCode): ClientError {
  return new ClientError(code);
}
