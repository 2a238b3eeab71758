import { type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { waitMs } from '../../../lib/wait.ts';
import type { SlackProvider } from './app.ts';
import {
  ALL_USERS,
  type HeldInstallation,
  type InstallationKey,
  openRecord,
  type StoredInstallation,
} from './record.ts';
import { type RenewDeps, renewInstallation } from './renew.ts';

/** The bot's token of an installation, or why there is none. */
export type InstallationToken =
  /** `isShared`: it serves all users. Otherwise its user has stated it, and it is not verified. */
  | { kind: 'token'; token: string; isShared: boolean }
  /** Slack is unavailable, or another node is renewing the token. */
  | { kind: 'retry'; reason: string; retryAfterMs: number }
  /** This server lacks the key that the installation was encrypted with. */
  | { kind: 'unreadable'; reason: string }
  /** The app has to be installed again. `code` is Slack's or ours. */
  | { kind: 'gone'; reason: string; code: string }
  /** The project or the operator has to correct the app's credentials. */
  | { kind: 'config'; reason: string; code: string };

/** An installation, and the user whose messages it sends. */
export interface InstallationOfUser {
  projectId: string;
  userId: string;
  provider: SlackProvider;
  id: string;
}

// Tokens are renewed this long before they expire, or at half of a shorter lifetime. Messages still go out if
// Slack is unavailable in this time.
const RENEW_BEFORE_MS = 60 * 60_000;
// A token must be valid for the time of a request.
const LEEWAY_MS = 30_000;
const WAIT_MS = 10_000; // for another node that is renewing it
const POLL_MS = 100;

/**
 * Returns the bot's token of the user's own installation or of the one that serves all users. Renews a token
 * that is about to expire; one caller on all nodes does this at a time. `expired` is a token that Slack has
 * just rejected as expired.
 */
export async function installationToken(
  deps: RenewDeps,
  of: InstallationOfUser,
  { expired }: { expired?: string } = {},
): Promise<InstallationToken> {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const held = (await findInstallations(deps, [of])).get(0);
    if (held === undefined) return NOT_INSTALLED;
    const judged = judgeInstallation(deps.clock, held, expired);
    if (judged.kind !== 'due') return judged;
    const renewed = await shareFlight(deps.db, held.key, () => renewInstallation(deps, held));
    if (renewed.kind === 'token') return usableToken(held, renewed.token);
    if (renewed.kind === 'changed') continue; // the present token may have become invalid
    if (judged.usable !== undefined) return usableToken(held, judged.usable);
    if (renewed.kind === 'retry' || renewed.kind === 'config') return renewed;
    if (waitedMs >= WAIT_MS)
      return { kind: 'retry', reason: 'The token is being renewed', retryAfterMs: 1_000 };
    await waitMs(POLL_MS);
  }
}

/**
 * Returns the tokens of installations as `installationToken` does, by one statement. Renews each at most
 * once. The keys of the map are the given objects.
 */
export async function installationTokens(
  deps: RenewDeps,
  asked: readonly InstallationOfUser[],
): Promise<ReadonlyMap<InstallationOfUser, InstallationToken>> {
  if (asked.length === 0) return new Map();
  const found = await findInstallations(deps, asked);
  const byInstallation = new Map<string, Promise<InstallationToken>>();
  const tokenOf = (
    of: InstallationOfUser,
    held: HeldInstallation | undefined,
  ): Promise<InstallationToken> => {
    if (held === undefined) return Promise.resolve(NOT_INSTALLED);
    const judged = judgeInstallation(deps.clock, held);
    if (judged.kind !== 'due') return Promise.resolve(judged);
    const name = JSON.stringify(held.key);
    const renewing = byInstallation.get(name) ?? installationToken(deps, of);
    byInstallation.set(name, renewing);
    return renewing;
  };
  const tokens = await Promise.all(
    asked.map(async (of, index) => [of, await tokenOf(of, found.get(index))] as const),
  );
  return new Map(tokens);
}

const NOT_INSTALLED: InstallationToken = {
  kind: 'gone',
  code: 'not_installed',
  reason: 'There is no such installation',
};

type Judged = InstallationToken | { kind: 'due'; usable: string | undefined };

/** Judges a token without a request. `due`: it has to be renewed, and `usable` may be used meanwhile. */
function judgeInstallation(clock: Clock, held: HeldInstallation, expired?: string): Judged {
  const { record, expiresAt, retryAt, brokenCode } = held;
  if (record === undefined)
    return {
      kind: 'unreadable',
      reason:
        'The installation cannot be decrypted: it was encrypted with a key that this server does not have. ' +
        'Add that key to SECRET_KEY, or install the app again',
    };
  const { access_token: token, refresh_token: refreshToken, expires_in: lifetime = 0 } = record;
  const leftMs = token === expired ? 0 : (expiresAt?.getTime() ?? Number.POSITIVE_INFINITY) - clock.now();
  const usable = leftMs > LEEWAY_MS ? token : undefined;
  if (brokenCode !== null) {
    // The access token stays valid when its refresh token is rejected.
    return usable !== undefined && OF_REFRESH_TOKENS.has(brokenCode)
      ? usableToken(held, usable)
      : { kind: 'gone', code: brokenCode, reason: `Slack does not renew the installation: ${brokenCode}` };
  }
  if (usable !== undefined && leftMs > Math.min(RENEW_BEFORE_MS, (lifetime * 1000) / 2))
    return usableToken(held, usable);
  if (refreshToken === undefined) {
    return usable === undefined
      ? {
          kind: 'gone',
          code: 'token_expired',
          reason: 'The token has run out and there is nothing to renew it with',
        }
      : usableToken(held, usable);
  }
  const waitMore = retryAt === null ? 0 : retryAt.getTime() - clock.now();
  if (waitMore <= 0) return { kind: 'due', usable };
  return usable === undefined
    ? { kind: 'retry', reason: 'The token could not be renewed', retryAfterMs: waitMore }
    : usableToken(held, usable);
}

function usableToken({ key }: HeldInstallation, token: string): InstallationToken {
  return { kind: 'token', token, isShared: key.ownerId === ALL_USERS };
}

const OF_REFRESH_TOKENS: ReadonlySet<string> = new Set(['invalid_refresh_token', 'invalid_grant']);

/**
 * Finds the installation for each user's messages: preferably one that works, then the user's own, then the
 * one that serves all users. The keys of the map are indexes.
 */
async function findInstallations(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  asked: readonly InstallationOfUser[],
): Promise<Map<number, HeldInstallation>> {
  const rows = await db.query<Row>(selectInstallations, [
    asked.map(({ projectId }) => projectId),
    asked.map(({ provider }) => provider),
    asked.map(({ id }) => id),
    asked.map(({ userId }) => userId),
    ALL_USERS,
  ]);
  // Most users share one: it is opened once.
  const opened = new Map<string, StoredInstallation | undefined>();
  return new Map(
    rows.flatMap((row): [number, HeldInstallation][] => {
      const of = asked[row.position - 1];
      if (of === undefined) return [];
      const key = { projectId: of.projectId, provider: of.provider, id: of.id, ownerId: row.owner_id };
      const name = JSON.stringify(key);
      if (!opened.has(name)) opened.set(name, openRecord(sealer, key, row.sealed_record));
      const held = {
        key,
        record: opened.get(name),
        expiresAt: row.expires_at,
        retryAt: row.retry_at,
        brokenCode: row.broken_code,
      };
      return [[row.position - 1, held]];
    }),
  );
}

const flights = new WeakMap<object, Map<string, Promise<unknown>>>();

/** Runs the work once for concurrent callers on this node. */
function shareFlight<Result>(
  node: object,
  key: InstallationKey,
  work: () => Promise<Result>,
): Promise<Result> {
  const underWay = flights.get(node) ?? new Map<string, Promise<unknown>>();
  flights.set(node, underWay);
  const name = JSON.stringify(key);
  const joined = underWay.get(name) as Promise<Result> | undefined;
  if (joined !== undefined) return joined;
  const flight = work().finally(() => underWay.delete(name));
  underWay.set(name, flight);
  return flight;
}

interface Row {
  position: number;
  owner_id: string;
  sealed_record: Buffer;
  expires_at: Date | null;
  retry_at: Date | null;
  broken_code: string | null;
}

// Primary key; two rows at most for each. The nil UUID comes last.
const selectInstallations = sql(
  'find_installations',
  `select w.position::int, i.owner_id, i.sealed_record, i.expires_at, i.retry_at, i.broken_code
  from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) with ordinality
    as w (project_id, provider, id, user_id, position)
  cross join lateral (
    select owner_id, sealed_record, expires_at, retry_at, broken_code
    from installations
    where project_id = w.project_id and provider = w.provider and id = w.id
      and owner_id = any (array[w.user_id, $5::uuid])
    order by broken_code is not null, owner_id desc
    limit 1
  ) i`,
);
