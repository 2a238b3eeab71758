import { textArray } from '../db/arrays.ts';
import { type Database, type Queryable, sql } from '../db/client.ts';
import type { Clock } from '../lib/clock.ts';
import { readJson, writeJson } from '../lib/exact-numbers.ts';
import type { JobKind, JobPayloads } from './jobs.ts';

// Less does no harm that lasts.
const AHEAD_MS = 24 * 3_600_000;
const PAGE = 500;

type Shift<Kind extends JobKind> = (payload: JobPayloads[Kind], byMs: number) => JobPayloads[Kind];

/**
 * The kinds that wait for a while, and not until a time that a request named: with the times in their
 * payloads moved back.
 */
const SHIFTS: { readonly [Kind in JobKind]?: Shift<Kind> } = {
  deliver: ({ progress, ...payload }, byMs) => ({
    ...payload,
    first_attempt_ms: payload.first_attempt_ms - byMs,
    ...(progress === undefined
      ? {}
      : {
          progress: mapped(progress, (of) => ({ ...of, left: mapped(of.left, (atMs) => atMs - byMs) })),
        }),
  }),
  send_webhook: (payload, byMs) => ({ ...payload, since_ms: payload.since_ms - byMs }),
  poll_receipts: (payload, byMs) => ({ ...payload, sent_ms: payload.sent_ms - byMs }),
  cancel: (payload) => payload,
  wake_waiting: (payload) => payload,
};

/**
 * Corrects the jobs that were scheduled while the clock was ahead, such as retries: otherwise they would wait
 * until the clock has that time once more.
 */
export class DueTimes {
  readonly #db: Pick<Database, 'transaction'>;
  readonly #clock: Clock;
  /** At first, as if the clock had been ahead until the process started. */
  #checkedAtMs = Number.POSITIVE_INFINITY;

  constructor({ db, clock }: { db: Pick<Database, 'transaction'>; clock: Clock }) {
    this.#db = db;
    this.#clock = clock;
  }

  /** Does nothing unless the clock has gone back by a day since the last time. */
  async correct(signal: AbortSignal): Promise<void> {
    const nowMs = this.#clock.now();
    if (this.#checkedAtMs > nowMs + AHEAD_MS)
      while (!signal.aborted && (await this.#db.transaction((tx) => correctPage(tx, nowMs))));
    this.#checkedAtMs = nowMs;
  }
}

/** Returns whether there may be more. */
async function correctPage(tx: Queryable, nowMs: number): Promise<boolean> {
  const rows = await tx.query<Row>(lockJobs, [
    textArray(Object.keys(SHIFTS)),
    new Date(nowMs + AHEAD_MS),
    PAGE,
  ]);
  if (rows.length === 0) return false;
  await tx.query(shiftJobs, [
    rows.map(({ id }) => id),
    rows.map(({ due_at: dueAt, enqueued_at: at }) => new Date(dueAt.getTime() - (at.getTime() - nowMs))),
    textArray(rows.map((row) => writeJson(shifted(row, row.enqueued_at.getTime() - nowMs)))),
    new Date(nowMs),
  ]);
  return rows.length === PAGE;
}

interface Row {
  id: number;
  kind: JobKind;
  payload: string;
  due_at: Date;
  enqueued_at: Date;
}

function shifted({ kind, payload }: Row, byMs: number): unknown {
  const shift = SHIFTS[kind] as Shift<JobKind>;
  return shift(readJson(payload) as never, byMs);
}

function mapped<Value, Result>(
  values: Readonly<Record<string, Value>>,
  of: (value: Value) => Result,
): Record<string, Result> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, of(value)]));
}

// Index jobs_scheduled (due_at). Jobs of a project that has left its cell are due at infinity.
const lockJobs = sql(
  'lock_jobs_of_wrong_clock',
  `select id, kind, payload::text as payload, due_at, enqueued_at
  from jobs
  where due_at > $2 and due_at < 'infinity' and lease_id is null
    and enqueued_at > $2 and kind = any ($1::text[])
  order by due_at
  limit $3
  for update skip locked`,
);
// Primary key.
const shiftJobs = sql(
  'shift_jobs_of_wrong_clock',
  `update jobs j
  set due_at = s.due_at, payload = s.payload::json, enqueued_at = $4
  from unnest($1::bigint[], $2::timestamptz[], $3::text[]) as s (id, due_at, payload)
  where j.id = any ($1::bigint[]) and j.id = s.id`,
);
