import { createHash } from 'node:crypto';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { waitMs } from '../../../lib/wait.ts';

/** An `Idempotency-Key` with all that it is scoped to. */
export interface IdempotencyKey {
  readonly projectId: string;
  readonly scope: string;
  readonly key: string;
  readonly requestHash: Buffer;
}

/** What was answered, or is to be answered, under a key. */
export interface KeptAnswer {
  status: number;
  body: string;
}

// The status of a row whose work has not ended; committed only where no transaction holds the row.
const UNDER_WAY = 0;
// Longer than any call to a vendor takes: work that has not ended by then was broken off by a crash.
const CLAIM_MS = 3 * 60 * 1000;
// A request waits this long for the same request on another node. Connecting to a vendor and its response
// take 40 s at most, and common load balancers cut a request after 60 s.
const WAIT_MS = 50_000;
const FIRST_POLL_MS = 50;
const SLOWEST_POLL_MS = 1_000;
// These statuses, and 5xx, say nothing about the operation: with another token, or a minute later, it may
// succeed under the same key.
const NOT_STORED: ReadonlySet<number> = new Set([401, 403, 429]);

/** How long an answer is kept: the contract's 24 hours. */
export const KEPT_MS = 24 * 60 * 60 * 1000;

/** What a response that holds a secret is sealed for. */
export function keptResponsePurpose(projectId: string, scope: string, key: string): string {
  return `project:${projectId}:answer:${scope}:${key}`;
}

/** What tells one request from another under the same key. `target` is the path with its query. */
export function requestHash(target: string, bodyHash: Buffer | undefined): Buffer {
  const hash = createHash('sha256').update(target).update('\0');
  return (bodyHash === undefined ? hash : hash.update(bodyHash)).digest();
}

/**
 * The answer kept under this key, if any. Throws `idempotency_conflict` when it belongs to another request.
 */
export async function findReplay(
  { db, clock }: { db: Queryable; clock: Clock },
  key: IdempotencyKey,
): Promise<KeptAnswer | undefined> {
  const rows = await db.query<{ status: number; body: string; request_hash: Buffer }>(selectKey, [
    key.projectId,
    key.scope,
    key.key,
    oldestKept(clock),
  ]);
  const kept = rows[0];
  if (kept !== undefined && !kept.request_hash.equals(key.requestHash))
    throw new ClientError('idempotency_conflict');
  return kept;
}

/**
 * Runs an operation at most once per key. The key, the writes of `work` and its response are committed
 * together, so there is no state in between: a crash leaves nothing, and a concurrent request with the same
 * key waits for the commit and gets the same response. A `ClientError` of `work` is a response too (its
 * writes are rolled back, the response is stored), except for those in `NOT_STORED`; anything else rolls back
 * everything.
 */
export async function answerOnce(
  deps: { db: Database; clock: Clock },
  key: IdempotencyKey,
  work: (tx: Queryable) => Promise<KeptAnswer>,
): Promise<KeptAnswer & { replayed: boolean }> {
  return inTurn(key, () => claimAndAnswer(deps, key, work));
}

/**
 * Notes the key in the caller's transaction. Returns false when it was noted within the last 24 hours; a
 * concurrent transaction with the same key is waited for. No response is stored under it.
 */
export async function isFirstUse(
  { tx, clock }: { tx: Queryable; clock: Clock },
  key: IdempotencyKey,
): Promise<boolean> {
  const where = [key.projectId, key.scope, key.key, key.requestHash];
  return (await tx.query(claimKey, [...where, new Date(clock.now()), oldestKept(clock)])).length > 0;
}

/**
 * The same for work that makes network calls, during which no transaction may be open: the key is claimed,
 * the work runs, its response is stored. A concurrent request with the same key waits, on another node too. A
 * crash in between leaves the claim behind, and nobody knows how far the work has come: requests then wait
 * for `WAIT_MS` and throw `idempotency_conflict`. After `CLAIM_MS` the work runs again.
 */
export async function answerClaimed(
  deps: { db: Queryable; clock: Clock },
  key: IdempotencyKey,
  work: () => Promise<KeptAnswer>,
): Promise<KeptAnswer & { replayed: boolean }> {
  return inTurn(key, async () => {
    const claim = await claimOrWait(deps, key);
    if ('stored' in claim) return { ...claim.stored, replayed: true };
    const { db } = deps;
    const where = [key.projectId, key.scope, key.key, claim.claimedAt];
    const answer = await asAnswer(work).catch(async (error: unknown) => {
      // Should this fail, too, the claim expires by itself.
      await db.query(endClaim, where).catch(() => {});
      throw error;
    });
    await db.query(keepClaimed, [...where, answer.status, answer.body]);
    return { ...answer, replayed: false };
  });
}

/** Claims the key, or waits for the response of the request that has claimed it. */
async function claimOrWait(
  deps: { db: Queryable; clock: Clock },
  key: IdempotencyKey,
): Promise<{ claimedAt: Date } | { stored: KeptAnswer }> {
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
      oldestKept(clock),
      new Date(clock.now() - CLAIM_MS),
    ]);
    if (claimed.length > 0) return { claimedAt };
    const stored = await findReplay(deps, key);
    if (stored !== undefined && stored.status !== UNDER_WAY) return { stored };
    if (clock.now() > deadlineMs) {
      throw new ClientError(
        'idempotency_conflict',
        ['The first request with this Idempotency-Key has not ended'],
        { 'retry-after': '5' },
      );
    }
    await waitMs(pauseMs);
  }
}

/** Deletes keys that ran out, a small batch; answers how many. Call it again while it answers `batch`. */
export async function purgeIdempotencyKeys(
  { db, clock }: { db: Queryable; clock: Clock },
  batch = 1000,
): Promise<number> {
  return (await db.query(deleteOldKeys, [oldestKept(clock), batch])).length;
}

const underWay = new Map<string, Promise<void>>();

/**
 * Twins in this process wait here, where it costs no connection: enough of them would otherwise take the
 * whole pool.
 */
async function inTurn<Result>(key: IdempotencyKey, work: () => Promise<Result>): Promise<Result> {
  const name = `${key.projectId} ${key.scope} ${key.key}`;
  while (underWay.has(name)) await underWay.get(name);
  const { promise, resolve } = Promise.withResolvers<void>();
  underWay.set(name, promise);
  try {
    return await work();
  } finally {
    underWay.delete(name);
    resolve();
  }
}

async function claimAndAnswer(
  deps: { db: Database; clock: Clock },
  key: IdempotencyKey,
  work: (tx: Queryable) => Promise<KeptAnswer>,
): Promise<KeptAnswer & { replayed: boolean }> {
  const { clock } = deps;
  return deps.db.transaction(async (tx) => {
    const where = [key.projectId, key.scope, key.key];
    const claimed = await tx.query(claimKey, [
      ...where,
      key.requestHash,
      new Date(clock.now()),
      oldestKept(clock),
    ]);
    if (claimed.length === 0) {
      const kept = await findReplay({ db: tx, clock }, key);
      if (kept === undefined) throw new Error('an idempotency key vanished between two statements');
      return { ...kept, replayed: true };
    }
    const answer = await attempt(tx, work);
    await tx.query(keepAnswer, [...where, answer.status, answer.body]);
    return { ...answer, replayed: false };
  });
}

async function attempt(tx: Queryable, work: (tx: Queryable) => Promise<KeptAnswer>): Promise<KeptAnswer> {
  await tx.query(savepoint);
  const answer = await asAnswer(() => work(tx));
  if (answer.status >= 400) await tx.query(rollbackToSavepoint);
  return answer;
}

/** The response of the work. An error of the client is one too, unless it is not to be stored. */
async function asAnswer(work: () => Promise<KeptAnswer>): Promise<KeptAnswer> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ClientError) || error.status >= 500 || NOT_STORED.has(error.status)) throw error;
    return { status: error.status, body: JSON.stringify({ errors: error.problems }) };
  }
}

function oldestKept(clock: Clock): Date {
  return new Date(clock.now() - KEPT_MS);
}

const savepoint = sql('savepoint_effect', 'savepoint effect');
const rollbackToSavepoint = sql('rollback_effect', 'rollback to savepoint effect');

// idempotency_keys_pkey. Waits for a transaction that has the key in hand; a row that ran out is taken over.
const claimKey = sql(
  'claim_idempotency_key',
  `insert into idempotency_keys as k (project_id, scope, key, request_hash, status, body, created_at)
  values ($1, $2, $3, $4, 0, '', $5)
  on conflict (project_id, scope, key) do update
  set request_hash = excluded.request_hash, created_at = excluded.created_at
  where k.created_at <= $6
  returning 1`,
);

// idempotency_keys_pkey. A row that ran out is taken over, and a claim of the same request that nobody works
// at any more.
const claimAlone = sql(
  'claim_idempotency_key_alone',
  `insert into idempotency_keys as k (project_id, scope, key, request_hash, status, body, created_at)
  values ($1, $2, $3, $4, 0, '', $5)
  on conflict (project_id, scope, key) do update
  set request_hash = excluded.request_hash, status = 0, body = '', created_at = excluded.created_at
  where k.created_at <= $6 or (k.status = 0 and k.created_at <= $7 and k.request_hash = excluded.request_hash)
  returning 1`,
);

// idempotency_keys_pkey. By its time a claim is told from one that has taken it over.
const keepClaimed = sql(
  'keep_claimed_answer',
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
const keepAnswer = sql(
  'keep_idempotent_answer',
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

// idempotency_keys_by_age. skip locked: a key that is being taken over this moment is not ours to delete.
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
