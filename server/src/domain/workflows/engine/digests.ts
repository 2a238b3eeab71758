import { byteaArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { readJson, writeJson } from '../../../lib/exact-numbers.ts';
import { packJson } from '../../../lib/packed-json.ts';
import { stepAt } from '../definitions/places.ts';
import { loadCollected } from '../runs/digests.ts';
import { STAGES } from '../runs/row.ts';
import type { Collect, StepResult } from '../steps/command.ts';
import type { LoadedRun } from './load.ts';
import { type Decisions, type Group, groupSteps, ownerOf, type SharedStep } from './shared-steps.ts';

// A digest keeps the items of its first runs, and counts the others. The items are an output, which every
// later turn of the run may load.
const MAX_ITEMS = 1_000;
const MAX_CHARACTERS = 256 * 1024;

/**
 * Closes the digests of runs that have waited for them, and loads their items. Called before a turn begins,
 * with no transaction: a closed digest does not change, so a repeated turn finds the same items. Removes runs
 * whose digest does not exist any more: they have been cancelled since they were loaded.
 */
export async function closeDigests(
  db: Queryable,
  runs: Map<string, LoadedRun>,
  nowMs: number,
): Promise<void> {
  const waiting = [...runs.values()].filter(waitsForDigest);
  if (waiting.length === 0) return;
  const digests = await db.query<{ run_id: string; closed: boolean; closes_at: Date; count: number }>(
    closeDue,
    [
      uuidArray(waiting.map(({ id }) => id)),
      // The clock may have been set back since the turn was due.
      waiting.map((run) => new Date(Math.max(nowMs, run.due_at.getTime()))),
    ],
  );
  const closed = digests.flatMap((one) => (one.closed ? [one.run_id] : []));
  const items = await loadCollected(db, closed);
  const found = new Set(digests.map(({ run_id: id }) => id));
  for (const { id } of waiting) if (!found.has(id)) runs.delete(id);
  for (const { run_id: id, closed: isClosed, closes_at: closesAt, count } of digests) {
    const run = runs.get(id) as LoadedRun;
    run.digest = isClosed
      ? { isClosed, output: { items: (items.get(id) ?? []).map((text) => readJson(text)), count } }
      : { isClosed, closesAtMs: closesAt.getTime() };
  }
}

function waitsForDigest({ stage, program, place }: LoadedRun): boolean {
  return stage === STAGES.waiting && stepAt(program, place)?.command === 'digest';
}

/** Closes the digest of a run that will not continue by itself, so that no run joins it any more. */
export async function closeDigest(db: Queryable, runId: string): Promise<void> {
  await db.query(closeNow, [runId]);
}

/**
 * Adds runs to the open digests of their keys, and opens those that do not exist. The first run of a digest
 * waits for it, the others end.
 */
export async function joinDigests(
  tx: Queryable,
  steps: readonly SharedStep<Collect>[],
  nowMs: number,
): Promise<Decisions> {
  if (steps.length === 0) return new Map();
  const joining = groupSteps(steps, commonOf).map((group) => joiningOf(group, nowMs));
  const rows = await tx.query<Joined>(openOrJoin, [
    uuidArray(joining.map(({ first }) => first)),
    byteaArray(joining.map(({ key }) => key)),
    joining.map(({ closesAt }) => closesAt),
    joining.map(({ closesBy }) => closesBy),
    joining.map(({ items }) => items.length),
    joining.map(({ size }) => size),
  ]);
  const digests = new Map(rows.map((row) => [row.key.toString('hex'), row]));
  const decisions = new Map<string, StepResult>();
  const kept: { digestId: string; item: Item }[] = [];
  for (const { key, items, size } of joining) {
    const digest = digests.get(key.toString('hex')) as Joined;
    const { run_id: digestId, closes_at: closesAt } = digest;
    let [count, characters] = [digest.count - items.length, digest.size - size];
    for (const item of items) {
      count += 1;
      characters += item.input.length;
      if (count <= MAX_ITEMS && characters <= MAX_CHARACTERS) kept.push({ digestId, item });
      decisions.set(
        item.runId,
        item.runId === digestId
          ? { kind: 'wait', untilMs: closesAt.getTime() }
          : { kind: 'end', output: { digest: digestId } },
      );
    }
  }
  await insertItems(tx, kept);
  return decisions;
}

/** Runs of another version have other steps, which may not understand these inputs. */
function commonOf({ run, request }: SharedStep<Collect>): readonly unknown[] {
  return [run.version, ownerOf(run), request.key ?? null];
}

interface Item {
  runId: string;
  /** JSON text. */
  input: string;
}

/** What runs with the same key add to their digest. */
interface Joining {
  key: Buffer;
  /** The run that collects if the digest does not exist. */
  first: string;
  items: readonly Item[];
  size: number;
  closesAt: Date;
  closesBy: Date;
}

interface Joined {
  run_id: string;
  key: Buffer;
  closes_at: Date;
  count: number;
  size: number;
}

function joiningOf({ key, steps }: Group<SharedStep<Collect>>, nowMs: number): Joining {
  const [{ run, request }] = steps;
  const items = steps.map((step) => ({ runId: step.run.id, input: writeJson(step.run.input) }));
  const closesByMs = nowMs + request.maxWindowMs;
  const windowMs = Math.max(...steps.map((step) => step.request.windowMs));
  return {
    key,
    first: run.id,
    items,
    size: items.reduce((sum, { input }) => sum + input.length, 0),
    closesAt: new Date(Math.min(nowMs + windowMs, closesByMs)),
    closesBy: new Date(closesByMs),
  };
}

async function insertItems(tx: Queryable, items: readonly { digestId: string; item: Item }[]): Promise<void> {
  if (items.length === 0) return;
  await tx.query(insertDigestItems, [
    uuidArray(items.map(({ digestId }) => digestId)),
    uuidArray(items.map(({ item }) => item.runId)),
    byteaArray(items.map(({ item }) => packJson(item.input))),
  ]);
}

// Primary keys, all but one. Several digests are locked in the order of their keys.
const closeDue = sql(
  'close_workflow_digests',
  `with waiting as materialized (
    select d.run_id, d.closes_at, d.count, not d.open or d.closes_at <= w.now as closed
    from unnest($1::uuid[], $2::timestamptz[]) as w (run_id, now)
    join workflow_digests d using (run_id)
    where d.run_id = any ($1::uuid[])
    order by d.key
    for update of d
  ),
  closed as (
    update workflow_digests
    set open = false
    where run_id = any (array(select run_id from waiting where closed)) and open
  )
  select run_id, closes_at, count, closed from waiting`,
);
const closeNow = sql(
  'close_workflow_digest',
  'update workflow_digests set open = false where run_id = $1 and open',
);
// Index workflow_digests_open.
const openOrJoin = sql(
  'join_workflow_digests',
  `insert into workflow_digests as d (run_id, key, open, closes_at, closes_by, count, size)
  select run_id, key, true, closes_at, closes_by, count, size
  from unnest($1::uuid[], $2::bytea[], $3::timestamptz[], $4::timestamptz[], $5::int[], $6::bigint[])
    as g (run_id, key, closes_at, closes_by, count, size)
  order by key
  on conflict (key) where open do update
  set count = d.count + excluded.count, size = d.size + excluded.size,
    closes_at = least(greatest(d.closes_at, excluded.closes_at), d.closes_by)
  returning run_id, key, closes_at, count, size`,
);
const insertDigestItems = sql(
  'insert_workflow_digest_items',
  `insert into workflow_digest_items (run_id, item_id, input)
  select run_id, item_id, input
  from unnest($1::uuid[], $2::uuid[], $3::bytea[]) as i (run_id, item_id, input)`,
);
