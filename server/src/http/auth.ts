import type { IncomingHttpHeaders } from 'node:http';
import { LRUCache } from 'lru-cache';
import type { Database } from '../db/client.ts';
import type { Bus } from '../domain/ground/bus/messages.ts';
import type { Identities } from '../domain/ground/identities/identities.ts';
import { identifyUnlessDeleted, identifyUser } from '../domain/people/users/identify.ts';
import type { LastSeen } from '../domain/people/users/last-seen.ts';
import type { Project, ProjectCache } from '../domain/setup/projects/cache.ts';
import type { KeyUses } from '../domain/setup/projects/key-uses.ts';
import { isValidKey, type ProjectKey } from '../domain/setup/projects/keys.ts';
import { ClientError } from '../errors.ts';
import type { Clock } from '../lib/clock.ts';
import { type Claims, decodeJwt, type JwtVerdict, verifyJwt } from '../lib/jwt.ts';
import { type NamedUser, readIssuer, readProjectClaims, readUserClaims } from './claims.ts';

/** The caller of a request with a Project JWT. */
export interface ProjectCaller {
  readonly kind: 'project';
  readonly project: Project;
  readonly tokenId: string;
  readonly credential: Credential;
}

/** The caller of a request with a User JWT, or with credentials of the project that name a user. */
export interface UserCaller {
  readonly kind: 'user';
  readonly project: Project;
  readonly userId: string;
  /** Whether the credential has the rights of the project, too: it is the API secret or a Project JWT. */
  readonly hasProjectRights?: boolean;
  readonly credential: Credential;
}

/** The validity of a caller's token. */
export interface Credential {
  /** Its own `exp`, or the end of the key that signed it if that is earlier. */
  readonly expiresAtMs: number;
  /** The key that signed it, or the API secret of a user for whom a backend acts. */
  readonly key: ProjectKey;
  /** The Project JWT with which a backend acts for the user. */
  readonly actingToken?: { id: string; keyId: string };
}

/** Whether the credential of a user is valid in the project as it is now. */
export function isStillValid(
  { expiresAtMs, key, actingToken }: Credential,
  { apiSecrets, signingKeys, revokedTokens }: Project,
  nowMs: number,
): boolean {
  if (expiresAtMs <= nowMs || !isValidKey(apiSecrets, key.id, nowMs)) return false;
  if (actingToken === undefined) return true;
  return isValidKey(signingKeys, actingToken.keyId, nowMs) && !revokedTokens.has(actingToken.id);
}

export type Caller = ProjectCaller | UserCaller;

/**
 * Returns the caller of a request. Throws a `ClientError` for invalid credentials. If they fit a project and
 * a user, returns the `wanted` one.
 */
export type Authenticator = (
  headers: IncomingHttpHeaders,
  wanted?: Caller['kind'],
) => Caller | Promise<Caller>;

export interface AuthenticatorDeps {
  db: Database;
  clock: Clock;
  projects: ProjectCache;
  identities: Identities;
  bus: Bus;
  lastSeen: LastSeen;
  keyUses: Pick<KeyUses, 'note'>;
}

// A token of ours has 300 characters, so this is enough for 15,000. Clients may add claims up to 8 kB.
const MAX_CACHED_BYTES = 20_000_000;
const BYTES_BESIDE_TOKEN = 1_000;

/**
 * An authenticator for the v2 `Authorization: Bearer <jwt>`. A verified token is cached until it expires or
 * its project changes.
 */
export function createAuthenticator(deps: AuthenticatorDeps): Authenticator {
  const { projects, lastSeen, keyUses, clock } = deps;
  const verified = new LRUCache<string, Verified>({
    maxSize: MAX_CACHED_BYTES,
    sizeCalculation: (_verified, token) => token.length + BYTES_BESIDE_TOKEN,
  });

  function authenticate(headers: IncomingHttpHeaders): Caller | Promise<Caller> {
    const token = bearerToken(headers.authorization);
    const known = verified.get(token);
    const resumes = !!headers['last-event-id']; // clients without an id may send an empty one
    if (known === undefined || known.credential.expiresAtMs <= clock.now())
      return verify(token).then((fresh) => toCaller(fresh, resumes));
    // Any change of the project, such as a revoked token or a new secret, creates a new object. Reading it
    // from the database may fail, and the request fails then.
    const project = projects.byId(known.project.id);
    return project instanceof Promise
      ? project.then((found) => admit(token, known, found, resumes))
      : admit(token, known, project, resumes);
  }

  function admit(
    token: string,
    known: Verified,
    project: Project | undefined,
    resumes: boolean,
  ): Caller | Promise<Caller> {
    return project === known.project
      ? toCaller(known, resumes)
      : verify(token).then((fresh) => toCaller(fresh, resumes));
  }

  async function verify(token: string): Promise<Verified> {
    verified.delete(token);
    const claims = decodeJwt(token);
    if (claims === undefined) throw new ClientError('unparsable_jwt_token');
    const issuer = readIssuer(claims);
    const isUser = 'apiKey' in issuer;
    const project = await (isUser ? projects.byApiKey(issuer.apiKey) : projects.byId(issuer.projectId));
    // An unknown project and a wrong signature are the same error, because the existence of projects is
    // private.
    if (project === undefined) throw new ClientError('jwt_auth_failed');
    const fresh =
      (await verifyWith(token, isUser, project)) ?? (await verifyWithNewer(token, isUser, project));
    if (fresh === undefined) throw new ClientError('jwt_auth_failed');
    verified.set(token, fresh);
    return fresh;
  }

  /** The token, verified with a key of the project; undefined if none of them has signed it. */
  async function verifyWith(token: string, isUser: boolean, project: Project): Promise<Verified | undefined> {
    const signed = await verdictOf(token, isUser ? project.apiSecrets : project.signingKeys, clock.now());
    if (signed === undefined) return undefined;
    const { verdict, key } = signed;
    if (!verdict.ok) throw tokenError(verdict);
    return isUser ? userToken(verdict.claims, project, key) : projectToken(verdict.claims, project, key);
  }

  /** A key that this node does not know yet may have signed it. */
  async function verifyWithNewer(
    token: string,
    isUser: boolean,
    known: Project,
  ): Promise<Verified | undefined> {
    const newer = await projects.newerThan(known);
    return newer === undefined || newer === known ? undefined : verifyWith(token, isUser, newer);
  }

  function toCaller(token: Verified, resumes: boolean): Caller | Promise<Caller> {
    keyUses.note(token.credential.key);
    return token.kind === 'project' ? token.caller : toUser(token, resumes);
  }

  async function toUser({ project, named, credential }: VerifiedUser, resumes: boolean): Promise<UserCaller> {
    // Programs resume streams by themselves, so a resume is no request of the user, which restores it.
    const user = await (resumes ? identifyUnlessDeleted : identifyUser)(deps, project.id, named);
    if (user === undefined) throw new ClientError('user_deleted');
    const { userId } = user;
    lastSeen.note(userId);
    return { kind: 'user', project, userId, credential };
  }

  return authenticate;
}

type VerifiedUser = { kind: 'user'; project: Project; credential: Credential; named: NamedUser };
type Verified =
  | { kind: 'project'; project: Project; credential: Credential; caller: ProjectCaller }
  | VerifiedUser;

/** The verdict with the key that signed the token; undefined if no key that is valid now has signed it. */
async function verdictOf(
  token: string,
  keys: readonly ProjectKey[],
  nowMs: number,
): Promise<{ verdict: JwtVerdict; key: ProjectKey } | undefined> {
  for (const key of keys) {
    if (key.validUntilMs <= nowMs) continue;
    const verdict = await verifyJwt(token, key.key, nowMs);
    if (verdict.ok || verdict.reason !== 'signature') return { verdict, key };
  }
  return undefined;
}

/** The token of a header of the form `Bearer <token>`; the scheme's case does not matter (RFC 9110). */
export function bearerToken(authorization: string | undefined): string {
  const token = /^Bearer +([^\s,]+)$/i.exec(authorization ?? '')?.[1];
  if (token === undefined) throw new ClientError('invalid_jwt_format', [], { 'www-authenticate': 'Bearer' });
  return token;
}

function tokenError(verdict: Extract<JwtVerdict, { ok: false }>): ClientError {
  if (verdict.reason !== 'unparsable') return new ClientError('jwt_auth_failed');
  const messages = verdict.claims?.map(
    (claim) => `The claim '${claim}' must be a number: seconds since 1970`,
  );
  return new ClientError('unparsable_jwt_token', messages);
}

function projectToken(claims: Claims, project: Project, key: ProjectKey): Verified {
  const { tokenId } = readProjectClaims(claims);
  if (project.revokedTokens.has(tokenId)) throw new ClientError('jwt_auth_failed');
  const credential = credentialOf(claims, key);
  return {
    kind: 'project',
    project,
    credential,
    caller: { kind: 'project', project, tokenId, credential },
  };
}

function userToken(claims: Claims, project: Project, key: ProjectKey): Verified {
  return { kind: 'user', project, credential: credentialOf(claims, key), named: readUserClaims(claims) };
}

function credentialOf({ exp }: Claims, key: ProjectKey): Credential {
  const ownEndMs = typeof exp === 'number' ? exp * 1000 : Number.POSITIVE_INFINITY;
  return { expiresAtMs: Math.min(ownEndMs, key.validUntilMs), key };
}
