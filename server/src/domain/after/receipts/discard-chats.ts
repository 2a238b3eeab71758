import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { type IntegrationName, tokenCollection, wireNameOf } from '../../../providers/index.ts';
import type { GoneChat } from '../../../providers/provider.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { ALL_USERS } from '../../people/installations/record.ts';
import type { TokenDiscarder } from '../../people/tokens/discard-gone.ts';
import type { GoneToken } from '../../people/tokens/gone-token.ts';

interface Deps {
  db: Database;
  config: { readonly BRAND: string };
  discarder: Pick<TokenDiscarder, 'discard'>;
}

/**
 * Discards the tokens of chats that no longer exist: a removed app with all its tokens, or one channel.
 * Without a project, in all projects that have this installation. What was installed or saved since stays.
 */
export async function discardChats(
  { db, config, discarder }: Deps,
  { projectId, provider }: { projectId?: string; provider: IntegrationName },
  gone: readonly GoneChat[],
): Promise<void> {
  if (gone.length === 0) return;
  const whole = gone.filter(({ channelId }) => channelId === undefined);
  await db.transaction((tx) => breakInstallations(tx, config.BRAND, { projectId, provider }, whole));
  const projectIds = projectId === undefined ? await projectsWith(db, provider, gone) : [projectId];
  await discarder.discard(await tokensOf(db, { projectIds, provider }, gone));
}

/** Marks the installations as broken, with an event for each. */
async function breakInstallations(
  tx: Queryable,
  brand: string,
  { projectId, provider }: { projectId: string | undefined; provider: IntegrationName },
  gone: readonly GoneChat[],
): Promise<void> {
  if (gone.length === 0) return;
  const broken = await tx.query<{ project_id: string; id: string; owner_id: string; broken_code: string }>(
    breakThem,
    [
      provider,
      textArray(gone.map(({ installationId }) => installationId)),
      textArray(gone.map(({ code }) => code)),
      gone.map(({ goneAt }) => goneAt),
      projectId ?? null,
    ],
  );
  const name = wireNameOf(provider, brand);
  const reasons = new Map(gone.map(({ installationId, reason }) => [installationId, reason]));
  await recordEvents(
    tx,
    broken.map(({ project_id, id, owner_id, broken_code: code }) => ({
      projectId: project_id,
      type: 'installation.broken' as const,
      ...(owner_id === ALL_USERS ? {} : { userIds: [owner_id] }),
      details: {
        level: 'error' as const,
        log: `${reasons.get(id)}. Install the app again.`,
        context: { provider: name, code },
        payload: { id, name },
      },
    })),
  );
}

async function projectsWith(
  db: Queryable,
  provider: IntegrationName,
  gone: readonly GoneChat[],
): Promise<string[]> {
  const ids = gone.map(({ installationId }) => installationId);
  const rows = await db.query<{ project_id: string }>(selectProjects, [provider, textArray(ids)]);
  return rows.map((row) => row.project_id);
}

/** Returns the tokens to discard. An installation stands for all its tokens. */
async function tokensOf(
  db: Queryable,
  { projectIds, provider }: { projectIds: readonly string[]; provider: IntegrationName },
  gone: readonly GoneChat[],
): Promise<GoneToken[]> {
  const channel = tokenCollection(provider).collection;
  const why = ({ code, goneAt, reason }: GoneChat) => ({ channel, code, goneAt, reason });
  const installations = gone.flatMap((one) =>
    one.channelId !== undefined
      ? []
      : projectIds.map((projectId) => ({
          projectId,
          userId: ALL_USERS,
          tokenId: NONE,
          installationId: one.installationId,
          scope: 'installation' as const,
          ...why(one),
        })),
  );
  const chats = gone.filter(({ channelId }) => channelId !== undefined);
  if (chats.length === 0) return installations;
  const rows = await db.query<{ public_id: string; project_id: string; user_id: string; id: string }>(
    selectTokens,
    [uuidArray(projectIds), textArray(chats.map(publicIdOf)), channel],
  );
  const byId = new Map(chats.map((chat) => [publicIdOf(chat), chat]));
  const tokens = rows.flatMap(({ public_id, project_id: projectId, user_id: userId, id: tokenId }) => {
    const chat = byId.get(public_id);
    return chat === undefined ? [] : [{ projectId, userId, tokenId, scope: 'token' as const, ...why(chat) }];
  });
  return [...installations, ...tokens];
}

/** Returns the public id as the provider's `tokens.identity` does. */
function publicIdOf({ installationId, channelId }: GoneChat): string {
  return `${installationId}-${channelId}`;
}

const NONE = '00000000-0000-0000-0000-000000000000';

// Index installations_by_id. A report can arrive late: an installation made since then has a newer record.
const breakThem = sql(
  'break_gone_installations',
  `with gone as (
    select i.project_id, i.id, i.owner_id, g.code
    from unnest($2::text[], $3::text[], $4::timestamptz[]) as g (id, code, gone_at)
    join installations i on i.provider = $1 and i.id = g.id
    where i.broken_code is null and i.updated_at <= g.gone_at and ($5::uuid is null or i.project_id = $5)
    order by i.project_id, i.id, i.owner_id
    for no key update of i
  )
  update installations i
  set broken_code = gone.code, renewing_until = null, retry_at = null, updated_at = now()
  from gone
  where i.project_id = gone.project_id and i.provider = $1 and i.id = gone.id and i.owner_id = gone.owner_id
  returning i.project_id, i.id, i.owner_id, i.broken_code`,
);
const selectProjects = sql(
  'projects_of_installations',
  'select distinct project_id from installations where provider = $1 and id = any ($2::text[])',
);
// Index tokens_of_installation.
const selectTokens = sql(
  'tokens_of_gone_chats',
  `select t.public_id, t.project_id, t.user_id, t.id
  from tokens t
  where t.project_id = any ($1::uuid[]) and t.public_id collate "C" = any ($2::text[]) and t.channel = $3
    and t.public_id is not null and t.discarded_at is null`,
);
