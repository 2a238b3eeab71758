import type { IncomingHttpHeaders } from 'node:http';
import { LRUCache } from 'lru-cache';
import type { Database } from '../db/client.ts';
import type { Project, ProjectCache } from '../domain/projects/cache.ts';
import type { Bus } from '../domain/realtime/messages.ts';
import { identifyUser } from '../domain/users/identify.ts';
import type { Identities } from '../domain/users/identities.ts';
import type { LastSeen } from '../domain/users/last-seen.ts';
import { ClientError } from '../errors.ts';
import { cacheLimit } from '../lib/cache-limit.ts';
import type { Clock } from '../lib/clock.ts';
import { type Claims, decodeJwt, type JwtVerdict, verifyDecoded } from '../lib/jwt.ts';
import { type NamedUser, readIssuer, readProjectClaims, readUserClaims } from './claims.ts';

/** Who speaks with a Project JWT. */
export interface ProjectCaller {
  readonly kind: 'project';
  readonly project: Project;
  readonly tokenId: string;
}

/** Who speaks with a User JWT. */
export interface UserCaller {
  readonly kind: 'user';
  readonly project: Project;
  readonly userId: string;
}

export type Caller = ProjectCaller | UserCaller;

/** Finds out who sends a request. Throws the `ClientError` to answer if it is nobody that this server knows. */
export type Authenticator = (headers: IncomingHttpHeaders) => Caller | Promise<Caller>;

export interface AuthenticatorDeps {
  db: Database;
  clock: Clock;
  projects: ProjectCache;
  identities: Identities;
  bus: Bus;
  lastSeen: LastSeen;
}

// A token has about 300 characters: with its entry about 1 kB, so 20 MB at most.
const MAX_TOKENS = 20_000;

/**
 * An authenticator for the v2 `Authorization: Bearer <jwt>`. A token that was verified is remembered until it expires or
 * its project changes; the same token then costs one look-up.
 */
export function createAuthenticator(deps: AuthenticatorDeps): Authenticator {
  const { projects, lastSeen, clock } = deps;
  const verified = new LRUCache<string, Verified>(cacheLimit(MAX_TOKENS));

  function authenticate(headers: IncomingHttpHeaders): Caller | Promise<Caller> {
    const token = bearerToken(headers.authorization);
    const known = verified.get(token);
    if (known === undefined || known.expiresAtMs <= clock.now()) return verify(token).then(toCaller);
    // Any change of the project (a token revoked, a secret renewed) makes another object of it. Where the database has to be asked for
    // it, that may fail: the request is told so.
    const project = projects.byId(known.project.id);
    return project instanceof Promise
      ? project.then((found) => admit(token, known, found))
      : admit(token, known, project);
  }

  function admit(token: string, known: Verified, project: Project | undefined): Caller | Promise<Caller> {
    return project === known.project ? toCaller(known) : verify(token).then(toCaller);
  }

  async function verify(token: string): Promise<Verified> {
    verified.delete(token);
    const decoded = decodeJwt(token);
    if (decoded === undefined) throw new ClientError('unparsable_jwt_token');
    const issuer = readIssuer(decoded.claims);
    const isUser = 'apiKey' in issuer;
    const project = await (isUser ? projects.byApiKey(issuer.apiKey) : projects.byId(issuer.projectId));
    // An unknown project and a wrong signature are the same error: which projects exist is nobody's business.
    if (project === undefined) throw new ClientError('jwt_auth_failed');
    const verdict = verifyDecoded(decoded, isUser ? project.apiSecret : project.signingKey, clock.now());
    if (!verdict.ok) throw tokenError(verdict);
    const fresh = isUser ? userToken(verdict.claims, project) : projectToken(verdict.claims, project);
    verified.set(token, fresh);
    return fresh;
  }

  function toCaller(token: Verified): Caller | Promise<Caller> {
    return token.kind === 'project' ? token.caller : toUser(token.project, token.named);
  }

  async function toUser(project: Project, named: NamedUser): Promise<UserCaller> {
    const { userId } = await identifyUser(deps, project.id, named);
    lastSeen.note(userId);
    return { kind: 'user', project, userId };
  }

  return authenticate;
}

type Verified = { project: Project; expiresAtMs: number } & (
  | { kind: 'project'; caller: ProjectCaller }
  | { kind: 'user'; named: NamedUser }
);

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

function projectToken(claims: Claims, project: Project): Verified {
  const { tokenId } = readProjectClaims(claims);
  if (project.revokedTokens.has(tokenId)) throw new ClientError('jwt_auth_failed');
  return {
    kind: 'project',
    project,
    expiresAtMs: expiry(claims),
    caller: { kind: 'project', project, tokenId },
  };
}

function userToken(claims: Claims, project: Project): Verified {
  return { kind: 'user', project, expiresAtMs: expiry(claims), named: readUserClaims(claims) };
}

function expiry({ exp }: Claims): number {
  return typeof exp === 'number' ? exp * 1000 : Number.POSITIVE_INFINITY;
}
