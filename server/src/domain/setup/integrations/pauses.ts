import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';

/** Identifies what is paused: an integration, or one downstream host or workspace of it. */
export interface PauseKey {
  projectId: string;
  integrationId: string;
  /** See `Provider.downstreamHost`; '' for the whole integration. `party` in the API and the database. */
  host: string;
}

/** A pause of an integration. Nothing is sent with it until `untilMs`; then one message probes it. */
export interface Pause extends PauseKey {
  /** The paused config: see `OpenedIntegration`. */
  version: string;
  sinceMs: number;
  untilMs: number;
  code: string | undefined;
  reason: string;
}

/** A pause that ends even later was written while the clock was wrong. Its probe is due. */
export const LONGEST_PAUSE_MS = 720_000;

/** Returns all pauses of current configs, of all projects. */
export async function loadPauses(db: Queryable): Promise<Pause[]> {
  return (await db.query<Row>(selectPauses)).map(pauseOf);
}

/** Returns these pauses, as far as they have not ended. */
export async function loadPausesOf(db: Queryable, keys: readonly PauseKey[]): Promise<Pause[]> {
  return (await db.query<Row>(selectPausesOf, keyArrays(keys))).map(pauseOf);
}

/** A text that is different for each key. */
export function nameOf({ projectId, integrationId, host }: PauseKey): string {
  return `${projectId}:${integrationId}:${host}`;
}

function pauseOf(row: Row): Pause {
  return {
    projectId: row.project_id,
    integrationId: row.integration_id,
    host: row.party,
    version: row.version.toISOString(),
    sinceMs: row.since.getTime(),
    untilMs: row.until.getTime(),
    code: row.code ?? undefined,
    reason: row.reason,
  };
}

/**
 * Writes pauses, except of integrations that were deleted or saved since. A pause that is extended keeps its
 * `since`.
 */
export async function writePauses(db: Queryable, pauses: readonly Pause[]): Promise<void> {
  await db.query(upsertPauses, [
    uuidArray(pauses.map(({ projectId }) => projectId)),
    uuidArray(pauses.map(({ integrationId }) => integrationId)),
    textArray(pauses.map(({ host }) => host)),
    pauses.map(({ version }) => new Date(version)),
    pauses.map(({ sinceMs }) => new Date(sinceMs)),
    pauses.map(({ untilMs }) => new Date(untilMs)),
    pauses.map(({ code }) => code ?? null),
    pauses.map(({ reason }) => reason),
  ]);
}

export async function endPauses(db: Queryable, keys: readonly PauseKey[]): Promise<void> {
  await db.query(deletePauses, keyArrays(keys));
}

/**
 * Claims the probe of a paused integration for a node. Returns undefined if the node may send, also if the
 * pause has ended; otherwise until when the integration is paused, which is not in the future if another node
 * probes it. The claim of a node without a lease does not count.
 */
export async function claimProbe(
  db: Queryable,
  { key, version, nodeId, nowMs }: { key: PauseKey; version: string; nodeId: string; nowMs: number },
): Promise<number | undefined> {
  const { projectId, integrationId, host } = key;
  const longestMs = nowMs + LONGEST_PAUSE_MS;
  const [row] = await db.query<{ until: Date; claimed: boolean }>(updateProbe, [
    projectId,
    integrationId,
    host,
    new Date(version),
    nodeId,
    new Date(nowMs),
    new Date(longestMs),
  ]);
  if (row === undefined || row.claimed) return undefined;
  return row.until.getTime() > longestMs ? nowMs : row.until.getTime();
}

/** Ends probes of a node that have shown nothing. */
export async function releaseProbes(db: Queryable, nodeId: string, keys: readonly PauseKey[]): Promise<void> {
  await db.query(deleteProbes, [...keyArrays(keys), nodeId]);
}

function keyArrays(keys: readonly PauseKey[]): string[] {
  return [
    uuidArray(keys.map(({ projectId }) => projectId)),
    uuidArray(keys.map(({ integrationId }) => integrationId)),
    textArray(keys.map(({ host }) => host)),
  ];
}

/**
 * SQL: whether the pause `p` is of the current config of the integration `i`. Versions are in milliseconds,
 * and each save increases `updated_at` by at least one.
 */
export const IS_CURRENT = "i.updated_at < p.version + interval '1 millisecond'";

interface Row {
  project_id: string;
  integration_id: string;
  party: string;
  version: Date;
  since: Date;
  until: Date;
  code: string | null;
  reason: string;
}

const PAUSES = `
  select p.project_id, p.integration_id, p.party, p.version, p.since, p.until, p.code, p.reason
  from integration_pauses p
  join integrations i on i.id = p.integration_id and i.project_id = p.project_id`;
// Reads all rows, one for each pause. Primary key of integrations (id, project_id).
const selectPauses = sql('select_integration_pauses', `${PAUSES} where ${IS_CURRENT}`);
// Primary keys.
const selectPausesOf = sql(
  'select_integration_pauses_of',
  `${PAUSES}
  join unnest($1::uuid[], $2::uuid[], $3::text[]) as wanted (project_id, integration_id, party)
    on p.project_id = wanted.project_id
    and p.integration_id = wanted.integration_id
    and p.party = wanted.party
  where ${IS_CURRENT}`,
);

// Primary keys. Locks the integrations as a foreign key would, so that they are not deleted meanwhile.
const upsertPauses = sql(
  'upsert_integration_pauses',
  `with found as materialized (
    select p.project_id, p.integration_id, p.party, p.version, p.since, p.until, p.code, p.reason
    from unnest(
      $1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::text[],
      $8::text[]
    ) as p (project_id, integration_id, party, version, since, until, code, reason)
    join integrations i on i.id = p.integration_id and i.project_id = p.project_id
    where ${IS_CURRENT}
    order by 1, 2, 3
    for key share of i
  )
  insert into integration_pauses as known (
    project_id, integration_id, party, version, since, until, code, reason
  )
  select * from found
  order by project_id, integration_id, party
  on conflict (project_id, integration_id, party) do update
  set version = excluded.version,
    since = case when known.version = excluded.version then known.since else excluded.since end,
    until = excluded.until,
    code = excluded.code,
    reason = excluded.reason,
    probed_by = null
  where known.version <= excluded.version`,
);

// Primary key.
const deletePauses = sql(
  'delete_integration_pauses',
  `with ended as (
    select p.project_id, p.integration_id, p.party
    from unnest($1::uuid[], $2::uuid[], $3::text[]) as ended (project_id, integration_id, party)
    join integration_pauses p using (project_id, integration_id, party)
    order by p.project_id, p.integration_id, p.party
    for update of p
  )
  delete from integration_pauses p
  using ended
  where p.project_id = ended.project_id
    and p.integration_id = ended.integration_id
    and p.party = ended.party`,
);

// Primary key; reads all leases, one for each node. Of two nodes at once, the second waits for the first.
const updateProbe = sql(
  'claim_integration_probe',
  `with claimed as (
    update integration_pauses p
    set probed_by = $5
    where p.project_id = $1
      and p.integration_id = $2
      and p.party = $3
      and (p.until <= $6 or p.until > $7)
      and (
        coalesce(p.probed_by, $5) = $5
        or not exists (select from leases l where l.node = p.probed_by and l.expires_at > now())
      )
    returning p.project_id
  )
  select p.until, exists (select from claimed) as claimed
  from integration_pauses p
  where p.project_id = $1 and p.integration_id = $2 and p.party = $3 and p.version >= $4`,
);

// Primary key.
const deleteProbes = sql(
  'release_integration_probes',
  `with probed as (
    select p.project_id, p.integration_id, p.party
    from unnest($1::uuid[], $2::uuid[], $3::text[]) as ended (project_id, integration_id, party)
    join integration_pauses p using (project_id, integration_id, party)
    where p.probed_by = $4
    order by p.project_id, p.integration_id, p.party
    for update of p
  )
  update integration_pauses p
  set probed_by = null
  from probed
  where p.project_id = probed.project_id
    and p.integration_id = probed.integration_id
    and p.party = probed.party`,
);
