import { type Queryable, sql } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { ALL_USERS, type HeldInstallation, openRecord, type StoredInstallation } from './record.ts';
import type { RenewDeps } from './renew.ts';
import {
  type InstallationOfUser,
  type InstallationToken,
  installationToken,
  judgeInstallation,
  NOT_INSTALLED,
} from './token.ts';

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
