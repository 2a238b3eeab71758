import { type IssuedToken, issueToken, listTokens, revokeToken } from '../domain/setup/projects/tokens.ts';
import { apiSecretOf, signUserToken } from '../domain/setup/projects/user-token.ts';
import { isEmailAddress } from '../lib/email-address.ts';
import { isExternalId } from '../lib/external-id.ts';
import { isId } from '../lib/ids.ts';
import { CommandError, UsageError } from './command.ts';
import { type Cell, print, printJson, printMembers, printTable } from './output.ts';
import type { Expiry } from './parse.ts';
import type { ForProject } from './project-named.ts';
import { renewFile } from './renew-file.ts';
import { withCells, withProject } from './with-cells.ts';
import { linked } from './with-context.ts';

/** `belfry token issue`: prints a Project JWT, once. */
export async function issueTokenCommand({
  project,
  name,
  expires,
  json,
}: ForProject & { name: string; expires: Expiry }): Promise<void> {
  const { token, issued } = await withProject(project, async (context, { id }) => {
    const made = await issueToken(context, { projectId: id, name, expiresAt: endOf(expires) });
    if (made === undefined) throw new CommandError('the project was deleted');
    return made;
  });
  const members = { ...toRecord(issued), project_jwt: token };
  if (json) return printJson(members);
  const { revoked_at: _, key_ends_at: __, ...shown } = members;
  printMembers({ ...shown, expires_at: shown.expires_at ?? 'never' });
  print('\nKeep project_jwt now: it is not shown again.');
}

/** `belfry token list`: without the tokens themselves, which are not stored. */
export async function listTokensCommand({ project, json }: ForProject): Promise<void> {
  const tokens = await withProject(project, (context, { id }) => listTokens(context, id));
  const records = tokens.map(toRecord);
  if (json) return printJson(records);
  printTable(
    tokens.map(({ name, jti, issuedAt, revokedAt, ...token }) => ({
      name,
      jti,
      issued: issuedAt.toISOString(),
      expires: shownExpiry(token),
      revoked: revokedAt?.toISOString() ?? '-',
    })),
    'The project has no token.',
  );
}

/** `belfry token revoke`. */
export async function revokeTokenCommand(jti: string, { json }: { json?: boolean }): Promise<void> {
  const unknown = new CommandError(`there is no token ${jti}: see belfry token list --project <name>`);
  if (!isId(jti)) throw unknown;
  const { revoked, notified, file } = await withCells(async ({ all }) => {
    const { contexts, failures } = await all();
    for (const context of contexts) {
      const notified = await linked(context);
      const revoked = await revokeToken(context, jti);
      if (revoked === undefined) continue;
      return {
        revoked,
        notified,
        file: await renewFile(context, revoked.projectId, 'the token was revoked'),
      };
    }
    throw failures[0] ?? unknown;
  });
  const { renewed, problem } = file;
  if (problem !== undefined) {
    console.error(`belfry: ${problem}`);
    process.exitCode = 1;
  }
  if (json) return printJson({ ...toRecord(revoked), credentials_file_renewed: renewed });
  print(
    `Token ${revoked.name} (${jti}) was revoked` +
      `${notified ? '' : '; running servers reject it within seconds'}.`,
  );
  if (renewed) print('credentials.json has a new one.');
}

/** `belfry token user`: a User JWT, signed with the project's API secret. */
export async function userTokenCommand({
  project,
  externalId,
  email,
  expires,
  json,
}: ForProject & { externalId?: string; email?: string; expires: Expiry }): Promise<void> {
  if (externalId === undefined && email === undefined)
    throw new UsageError('choose the user with --external-id <id> or --email <address>');
  // An empty shell variable must not turn a token by id into one by address.
  if (externalId !== undefined && !isExternalId(externalId)) throw new UsageError('--external-id is blank');
  if (email !== undefined && !isEmailAddress(email))
    throw new UsageError(`--email '${email}' is not an e-mail address`);
  const expiresAt = endOf(expires);
  const { jwt, apiKey } = await withProject(project, async (context, { id, apiKey }) => {
    const apiSecret = await apiSecretOf(context, id);
    return {
      jwt: await signUserToken(context, { apiKey, apiSecret, externalId, email, expiresAt }),
      apiKey,
    };
  });
  if (json) printJson({ user_jwt: jwt, api_key: apiKey, expires_at: expiresAt?.toISOString() ?? null });
  else print(jwt);
}

function endOf(expires: Expiry): Date | undefined {
  return expires === 'never' ? undefined : expires;
}

/** The end of the token: its own expiry, or the end of its key if that is earlier. */
function shownExpiry({ expiresAt, keyEndsAt }: Pick<IssuedToken, 'expiresAt' | 'keyEndsAt'>): string | Cell {
  const own = expiresAt?.toISOString() ?? 'never';
  if (keyEndsAt === null || (expiresAt !== null && expiresAt <= keyEndsAt)) return own;
  const ended = keyEndsAt.getTime() <= Date.now();
  return { text: `${keyEndsAt.toISOString()} (with its key)`, format: ended ? 'dim' : 'yellow' };
}

function toRecord({ projectId, name, jti, issuedAt, expiresAt, revokedAt, keyEndsAt }: IssuedToken) {
  return {
    project_id: projectId,
    name,
    jti,
    issued_at: issuedAt.toISOString(),
    expires_at: expiresAt?.toISOString() ?? null,
    revoked_at: revokedAt?.toISOString() ?? null,
    key_ends_at: keyEndsAt?.toISOString() ?? null,
  };
}
