import { createHash } from 'node:crypto';
import { byteaArray, textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError, type Problem } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { waitMs } from '../../../lib/wait.ts';

/** An `Idempotency-Key` with all that it is scoped to. */
export interface IdempotencyKey {
  readonly projectId: string;
  readonly scope: string;
  readonly key: string;
  readonly requestHash: Buffer;
}

/** The response that is stored under a key. */
export interface StoredResponse {
  status: number;
  body: string;
}

// The status of a row whose work has not finished. Committed only by claims that span no transaction.
const UNFINISHED = 0;
// Longer than any call to a vendor takes: work that is unfinished by then was ended by a crash.
const CLAIM_MS = 3 * 60 * 1000;
// A request waits this long for the same request on another node. Connecting to a vendor and its response
// take 40 s at most, and common load balancers cut a request after 60 s.
const WAIT_MS = 50_000;
const FIRST_POLL_MS = 50;
const SLOWEST_POLL_MS = 1_000;
// These statuses, like 5xx, are not results of the operation: with another token, or a minute later, it may
// succeed under the same key.
const NOT_STORED: ReadonlySet<number> = new Set([401, 403, 429]);

/** How long a response is stored: 24 hours, by the contract. */
export const STORED_MS = 24 * 60 * 60 * 1000;

/** The purpose with which a response that contains a secret is sealed. */
export function storedResponsePurpose(projectId: string, scope: string, key: string): string {
  // language-ignore: rows are stored with this purpose
  return `project:${projectId}:answer:${scope}:${key}`;
}

/** Returns a hash that differs between requests. `target` is the path with its query. */
export function requestHash(target: string, bodyHash: Buffer | undefined): Buffer {
  const hash = createHash('sha256').update(target).update('\0');
  return (bodyHash === undefined ? hash : hash.update(bodyHash)).digest();
}

/** Returns the response stored under this key. Throws `idempotency_conflict` if it is another request's. */
export async function findReplay(
  { db, clock }: { db: Queryable; clock: Clock },
  key: IdempotencyKey,
): Promise<StoredResponse | undefined> {
  const rows = await db.query<{ status: number; body: string; request_hash: Buffer }>(selectKey, [
    key.projectId,
    key.scope,
    key.key,
    oldestStored(clock),
  ]);
  const stored = rows[0];
  if (stored !== undefined && !stored.request_hash.equals(key.requestHash))
    throw new ClientError('idempotency_conflict');
  return stored;
}

/**
 * Runs an operation at most once per key. The key, the writes of `work` and its response are committed in one
 * transaction: a crash leaves nothing, and a concurrent request with the same key waits for the commit and
 * returns the same response. If `work` throws a `ClientError`, its writes are rolled back and the error is
 * stored as the response, except for statuses in `NOT_STORED`. Any other error rolls back everything.
 */
export async function runOnce(
  deps: { db: Database; clock: Clock },
  key: IdempotencyKey,
  work: (tx: Queryable) => Promise<StoredResponse>,
): Promise<StoredResponse & { replayed: boolean }> {
  return oneAtATime(key, () => claimAndRun(deps, key, work));
}

/**
 * Records the key in the caller's transaction. Returns false if it was recorded in the last 24 hours. Waits
 * for a concurrent transaction with the same key. Stores no response.
 */
export async function isFirstUse(
  { tx, clock }: { tx: Queryable; clock: Clock },
  key: IdempotencyKey,
): Promise<boolean> {
  const where = [key.projectId, key.scope, key.key, key.requestHash];
  return (await tx.query(claimKey, [...where, new Date(clock.now()), oldestStored(clock)])).length > 0;
}

/**
 * Records keys with the responses to their requests, in the caller's transaction. Returns for each whether it
 * was recorded: not if it was in the last 24 hours. Each key may be given once. Waits for concurrent
 * transactions with the same keys.
 */
export async function storeResponses(
  { tx, clock }: { tx: Queryable; clock: Clock },
  uses: readonly { key: IdempotencyKey; response: StoredResponse }[],
): Promise<boolean[]> {
  const rows = await tx.query<{ project_id: string; scope: string; key: string }>(insertResponses, [
    uuidArray(uses.map(({ key }) => key.projectId)),
    textArray(uses.map(({ key }) => key.scope)),
    textArray(uses.map(({ key }) => key.key)),
    byteaArray(uses.map(({ key }) => key.requestHash)),
    uses.map(({ response }) => response.status),
    textArray(uses.map(({ response }) => response.body)),
    new Date(clock.now()),
  ]);
  const stored = new Set(rows.map((row) => nameOf({ ...row, projectId: row.project_id })));
  return uses.map(({ key }) => stored.has(nameOf(key)));
}

/** A text that differs between keys. */
export function nameOf({ projectId, scope, key }: Omit<IdempotencyKey, 'requestHash'>): string {
  return `${projectId} ${scope} ${key}`;
}

/**
 * `runOnce` for work that makes network calls and therefore holds no transaction: claims the key, runs the
 * work, stores its response. A concurrent request with the same key waits, on other nodes too. A crash leaves
 * the claim behind, and how far the work came is unknown: requests then wait for `WAIT_MS` and throw
 * `idempotency_conflict`. After `CLAIM_MS` the work runs once more.
 */
export async function runOnceClaimed(
  deps: { db: Queryable; clock: Clock },
  key: IdempotencyKey,
  work: () => Promise<StoredResponse>,
): Promise<StoredResponse & { replayed: boolean }> {
  return oneAtATime(key, async () => {
    const claim = await claimOrWait(deps, key);
    if ('stored' in claim) return { ...claim.stored, replayed: true };
    const { db } = deps;
    const where = [key.projectId, key.scope, key.key, claim.claimedAt];
    const response = await asResponse(work).catch(async (error: unknown) => {
      // If this fails too, the claim expires.
      await db.query(endClaim, where).catch(() => {});
      throw error;
    });
    await db.query(storeClaimed, [...where, response.status, response.body]);
    return { ...response, replayed: false };
  });
}

/** Claims the key, or waits for the response of the request that claimed it. */
async function claimOrWait(
  deps: { db: Queryable; clock: Clock },
  key: IdempotencyKey,
): Promise<{ claimedAt: Date } | { stored: StoredResponse }> {
  const { db, clock } = deps;
  const deadlineMs = clock.now() + WAIT_MS;
  for (let pauseMs = FIRST_POLL_MS; ; pauseMs = Math.min(pauseMs * 1.5, SLOWEST_POLL_MS)) {
    const claimedAt = new Date(clock.now());
    const claimed = await db.query(claimAlone, [
      key.projectId,
      key.scope,
      key.key,
      key.requestHash,
      claimedAt,
      oldestStored(clock),
      new Date(clock.now() - CLAIM_MS),
    ]);
    if (claimed.length > 0) return { claimedAt };
    const stored = await findReplay(deps, key);
    if (stored !== undefined && stored.status !== UNFINISHED) return { stored };
    if (clock.now() > deadlineMs) {
      throw new ClientError(
        'idempotency_conflict',
        ['The first request with this Idempotency-Key has not finished'],
        { 'retry-after': '5' },
      );
    }
    await waitMs(pauseMs);
  }
}

/**
 * Deletes up to `batch` expired keys. Returns how many it deleted; fewer than `batch` means that none is
 * left.
 */
export async function purgeIdempotencyKeys(
  { db, clock }: { db: Queryable; clock: Clock },
  batch: number,
): Promise<number> {
  return (await db.query(deleteOldKeys, [oldestStored(clock), batch])).length;
}

const inFlight = new Map<string, Promise<void>>();

/**
 * Runs work with the same key one after another within this process. Waiting here takes no connection of the
 * pool.
 */
async function oneAtATime<Result>(key: IdempotencyKey, work: () => Promise<Result>): Promise<Result> {
  const name = nameOf(key);
  while (inFlight.has(name)) await inFlight.get(name);
  const { promise, resolve } = Promise.withResolvers<void>();
  inFlight.set(name, promise);
  try {
    return await work();
  } finally {
    inFlight.delete(name);
    resolve();
  }
}

async function claimAndRun(
  deps: { db: Database; clock: Clock },
  key: IdempotencyKey,
  work: (tx: Queryable) => Promise<StoredResponse>,
): Promise<StoredResponse & { replayed: boolean }> {
  const { clock } = deps;
  return deps.db.transaction(async (tx) => {
    if (!(await isFirstUse({ tx, clock }, key))) {
      const stored = await findReplay({ db: tx, clock }, key);
      if (stored === undefined) throw new Error('an idempotency key vanished between two statements');
      return { ...stored, replayed: true };
    }
    const response = await attempt(tx, work);
    await tx.query(storeResponse, [key.projectId, key.scope, key.key, response.status, response.body]);
    return { ...response, replayed: false };
  });
}

async function attempt(
  tx: Queryable,
  work: (tx: Queryable) => Promise<StoredResponse>,
): Promise<StoredResponse> {
  await tx.query(savepoint);
  const response = await asResponse(() => work(tx));
  if (response.status >= 400) await tx.query(rollbackToSavepoint);
  return response;
}

/**
 * Returns the response of the work, or that of the `ClientError` it throws. Rethrows errors that are not
 * stored.
 */
async function asResponse(work: () => Promise<StoredResponse>): Promise<StoredResponse> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ClientError) || error.status >= 500 || NOT_STORED.has(error.status)) throw error;
    return errorResponse(error);
  }
}

/** Returns the response that reports an error. */
export function errorResponse({ status, problems }: ClientError): StoredResponse {
  return { status, body: JSON.stringify({ errors: problems }) };
}

/** Returns the error that a stored response reports; undefined if it reports none. */
export function errorIn({ status, body }: StoredResponse): ClientError | undefined {
  if (status < 400) return undefined;
  const problems: readonly Problem[] = JSON.parse(body).errors;
  return new ClientError(
    problems[0]?.code ?? 'validation_failed',
    problems.map(({ message }) => message),
  );
}

function oldestStored(clock: Clock): Date {
  return new Date(clock.now() - STORED_MS);
}

const savepoint = sql('savepoint_effect', 'savepoint effect');
const rollbackToSavepoint = sql('rollback_effect', 'rollback to savepoint effect');

// idempotency_keys_pkey. Waits for a transaction that writes the same key. Replaces an expired row.
const claimKey = sql(
  'claim_idempotency_key',
  `insert into idempotency_keys as k (project_id, scope, key, request_hash, status, body, created_at)
  values ($1, $2, $3, $4, 0, '', $5)
  on conflict (project_id, scope, key) do update
  set request_hash = excluded.request_hash, created_at = excluded.created_at
  where k.created_at <= $6
  returning 1`,
);

// idempotency_keys_pkey. Waits as above, for one key after the other in the same order everywhere.
const insertResponses = sql(
  'store_idempotent_responses',
  `insert into idempotency_keys as k (project_id, scope, key, request_hash, status, body, created_at)
  select project_id, scope, key, request_hash, status, body, $7
  from unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::int[], $6::text[])
    as used (project_id, scope, key, request_hash, status, body)
  order by project_id, scope, key
  on conflict (project_id, scope, key) do update
  set request_hash = excluded.request_hash, status = excluded.status, body = excluded.body,
    created_at = excluded.created_at
  where k.created_at at time zone 'UTC'
    <= excluded.created_at at time zone 'UTC' - interval '${STORED_MS} milliseconds'
  returning project_id, scope, key`,
);

// idempotency_keys_pkey. Replaces an expired row, and a claim of the same request that a crash left behind.
const claimAlone = sql(
  'claim_idempotency_key_alone',
  `insert into idempotency_keys as k (project_id, scope, key, request_hash, status, body, created_at)
  values ($1, $2, $3, $4, 0, '', $5)
  on conflict (project_id, scope, key) do update
  set request_hash = excluded.request_hash, status = 0, body = '', created_at = excluded.created_at
  where k.created_at <= $6 or (k.status = 0 and k.created_at <= $7 and k.request_hash = excluded.request_hash)
  returning 1`,
);

// idempotency_keys_pkey. The time of a claim distinguishes it from a later one that replaced it.
const storeClaimed = sql(
  'store_claimed_response',
  `update idempotency_keys
  set status = $5, body = $6
  where project_id = $1 and scope = $2 and key = $3 and created_at = $4`,
);
const endClaim = sql(
  'end_idempotency_claim',
  `delete from idempotency_keys
  where project_id = $1 and scope = $2 and key = $3 and created_at = $4 and status = 0`,
);

// idempotency_keys_pkey.
const storeResponse = sql(
  'store_idempotent_response',
  `update idempotency_keys
  set status = $4, body = $5
  where project_id = $1 and scope = $2 and key = $3`,
);

// idempotency_keys_pkey.
const selectKey = sql(
  'select_idempotency_key',
  `select status, body, request_hash
  from idempotency_keys
  where project_id = $1 and scope = $2 and key = $3 and created_at > $4`,
);

// idempotency_keys_by_age. Skips keys that another transaction is replacing.
const deleteOldKeys = sql(
  'delete_old_idempotency_keys',
  `delete from idempotency_keys
  where ctid = any(array(
    select ctid
    from idempotency_keys
    where created_at <= $1
    order by created_at
    limit $2
    for update skip locked
  ))
  returning 1`,
);
