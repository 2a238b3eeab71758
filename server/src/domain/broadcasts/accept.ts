import { type Database, isDatabaseUnavailable, type Statement, sql } from '../../db/client.ts';
import { ClientError } from '../../errors.ts';
import { Batcher } from '../../lib/batcher.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { BULK, fanOutWeight, type Job, priorityFor } from '../../queue/jobs.ts';
import type { Worker } from '../../queue/worker.ts';
import { findReplay, type IdempotencyKey, KEPT_MS } from '../idempotency.ts';
import type { FreshRecipients } from './fresh-recipients.ts';
import { topicProblems } from './recipients.ts';
import { acceptedJson, packed, type SentBroadcast, storedBody } from './wire.ts';

/** What became of a request to send: accepted now, or earlier under the same key. */
export type Acceptance = { replayed: boolean; status: number; json: string | Buffer };

// Two commits under way: while the disk syncs one, the next gathers what comes in.
const CONCURRENCY = 2;
const MAX_BROADCASTS = 512;
const MAX_BYTES = 8 * 1024 * 1024;

/**
 * Takes broadcasts in. Requests that arrive together share one statement and one commit: the broadcast, the job that will fan it out and,
 * where the client sent one, the idempotency key with its answer. Nothing is accepted before that commit.
 */
export class Acceptor {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #fresh: FreshRecipients;
  readonly #worker: Pick<Worker, 'reserve' | 'wake'>;
  readonly #onAccepted: (broadcasts: number) => void;
  readonly #plain: Batcher<Entry, Outcome>;
  readonly #keyed: Batcher<Entry, Outcome>;

  constructor(options: {
    db: Database;
    clock: Clock;
    fresh: FreshRecipients;
    worker: Pick<Worker, 'reserve' | 'wake'>;
    onAccepted: (broadcasts: number) => void;
  }) {
    this.#db = options.db;
    this.#fresh = options.fresh;
    this.#worker = options.worker;
    this.#clock = options.clock;
    this.#onAccepted = options.onAccepted;
    const batching = {
      concurrency: CONCURRENCY,
      maxItems: MAX_BROADCASTS,
      maxWeight: MAX_BYTES,
      weigh: (entry: Entry) => entry.bytes,
    };
    this.#plain = new Batcher({ ...batching, run: (entries) => this.#commit(acceptPlain, entries, entries) });
    this.#keyed = new Batcher({
      ...batching,
      run: (entries) => this.#commit(acceptKeyed, entries, firstOfEachKey(entries)),
    });
  }

  /**
   * Resolves when the broadcast is committed. Throws `idempotency_conflict` for a key that was used for another request, and
   * `validation_failed` where the subscribers of no topic are addressed.
   */
  async accept(projectId: string, sent: SentBroadcast, idempotency?: IdempotencyKey): Promise<Acceptance> {
    const problems = topicProblems(sent.body);
    if (problems.length > 0) throw new ClientError('validation_failed', problems);
    const entry = entryOf(projectId, newId(this.#clock.now()), sent, idempotency);
    const { category, topic, columns } = entry;
    const { message, inApp } = columns;
    this.#fresh.put(entry.id, {
      projectId,
      category,
      topic,
      message,
      inApp,
      recipients: sent.body.recipients ?? [],
    });
    const outcome = await (idempotency === undefined ? this.#plain : this.#keyed).add(entry);
    if ('error' in outcome || outcome.replayed) this.#fresh.take([entry.id]); // nobody will ask for it
    if ('error' in outcome) throw outcome.error;
    return outcome;
  }

  async #commit(statement: Statement, entries: Entry[], distinct: Entry[]): Promise<Outcome[]> {
    const outcomes = new Map<Entry, Outcome>();
    const accepted = await this.#insert(statement, distinct, outcomes);
    if (accepted > 0) this.#onAccepted(accepted);
    // Who was not accepted has used a key before, or just now at the same moment.
    return Promise.all(entries.map((entry) => outcomes.get(entry) ?? this.#answerRepeat(entry)));
  }

  /** Answers how many were accepted. Who has no outcome then was not. */
  async #insert(statement: Statement, entries: Entry[], outcomes: Map<Entry, Outcome>): Promise<number> {
    const weight = entries.reduce((sum, entry) => sum + entry.weight, 0);
    const reservation = this.#worker.reserve('fan_out', entries.length, weight);
    try {
      const rows = await this.#db.query<{ id: string; job_id: number }>(
        statement,
        values(entries, this.#clock.now(), reservation?.leaseId),
      );
      const jobIds = new Map(rows.map((row) => [row.id, row.job_id]));
      const accepted = entries.filter((entry) => jobIds.has(entry.id));
      for (const entry of accepted) outcomes.set(entry, { replayed: false, status: 201, json: entry.json });
      if (reservation) reservation.end(accepted.map((entry) => leasedJob(entry, jobIds.get(entry.id) ?? 0)));
      else if (accepted.length > 0) this.#worker.wake('fan_out');
      return accepted.length;
    } catch (error) {
      reservation?.end([]);
      if (entries.length === 1 || isDatabaseUnavailable(error)) {
        for (const entry of entries) outcomes.set(entry, { error });
        return 0;
      }
      // What one broadcast did to the statement must not be held against the others of the batch.
      let accepted = 0;
      for (const entry of entries) accepted += await this.#insert(statement, [entry], outcomes);
      return accepted;
    }
  }

  /** The answer kept under the entry's key. A key that means another request is a conflict. */
  async #answerRepeat({ idempotency }: Entry): Promise<Outcome> {
    try {
      const kept = idempotency && (await findReplay({ db: this.#db, clock: this.#clock }, idempotency));
      if (kept === undefined) throw new ClientError('idempotency_conflict');
      return { replayed: true, status: kept.status, json: kept.body };
    } catch (error) {
      return { error };
    }
  }
}

/** Of each for itself: that one failed says nothing about those that were committed with it. */
type Outcome = Acceptance | { error: unknown };

interface Entry {
  id: string;
  projectId: string;
  idempotency: IdempotencyKey | undefined;
  category: string | null;
  topic: string | null;
  columns: ReturnType<typeof packed>;
  named: number;
  priority: number;
  weight: number;
  json: Buffer;
  bytes: number;
}

function entryOf(
  projectId: string,
  id: string,
  sent: SentBroadcast,
  idempotency: IdempotencyKey | undefined,
): Entry {
  const stored = storedBody(sent);
  const columns = packed(stored);
  const json = acceptedJson(id, stored);
  const characters = stored.messageJson.length + (stored.overridesJson?.length ?? 0);
  const { named, subscribers, ofFirstPage } = stored.recipients;
  return {
    id,
    projectId,
    idempotency,
    category: stored.category,
    topic: stored.topic,
    columns,
    named,
    // Nobody has counted the subscribers of a topic: they may be a million.
    priority: subscribers ? BULK : priorityFor(named),
    weight: fanOutWeight({ recipients: ofFirstPage, characters }),
    json,
    // What the statement carries: the answer too where it is kept, and that is not deflated.
    bytes:
      columns.message.length +
      (columns.overrides?.length ?? 0) +
      (columns.recipients?.length ?? 0) +
      (idempotency === undefined ? 0 : json.length),
  };
}

/** The entry's job, written as leased to this process. */
function leasedJob(entry: Entry, id: number): Job<'fan_out'> {
  const { projectId, priority, weight } = entry;
  const payload = { broadcast_id: entry.id };
  return { id, kind: 'fan_out', projectId, priority, weight, attempt: 1, payload };
}

/** The keyed entries without those whose key came twice in the batch: one statement can take a key only once. */
function firstOfEachKey(entries: readonly Entry[]): Entry[] {
  const byKey = new Map<string, Entry>();
  for (const entry of entries) {
    if (entry.idempotency === undefined) continue;
    const key = JSON.stringify([entry.projectId, entry.idempotency.scope, entry.idempotency.key]);
    if (!byKey.has(key)) byKey.set(key, entry);
  }
  // In one order everywhere, so that two batches that want the same keys do not wait for each other in a circle.
  return [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, entry]) => entry);
}

function values(entries: readonly Entry[], nowMs: number, leaseId: string | undefined): unknown[] {
  const common = [
    entries.map((entry) => entry.id),
    entries.map((entry) => entry.projectId),
    entries.map((entry) => entry.category),
    entries.map((entry) => entry.topic),
    entries.map((entry) => entry.columns.message),
    entries.map((entry) => entry.columns.inApp),
    entries.map((entry) => entry.columns.overrides),
    entries.map((entry) => entry.columns.recipients),
    entries.map((entry) => entry.named),
    entries.map((entry) => entry.priority),
    entries.map((entry) => entry.weight),
    leaseId,
  ];
  if (entries[0]?.idempotency === undefined) return common;
  return [
    ...common,
    entries.map((entry) => entry.idempotency?.scope),
    entries.map((entry) => entry.idempotency?.key),
    entries.map((entry) => entry.idempotency?.requestHash),
    entries.map((entry) => entry.json.toString()),
    new Date(nowMs),
    new Date(nowMs - KEPT_MS),
  ];
}

const INPUT = `unnest(
      $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::int[], $10::smallint[], $11::int[]`;
const INPUT_COLUMNS =
  'id, project_id, category, topic, message, in_app, overrides, recipients, total, priority, weight';
const INSERT_BROADCASTS = `insert into broadcasts (id, project_id, category, topic, message, in_app, overrides, recipients, total)
    select id, project_id, category, topic, message, in_app, overrides, recipients, total`;
const INSERT_JOBS = `insert into jobs (kind, project_id, priority, weight, lease_id, attempt, payload)
    select 'fan_out', project_id, priority, weight, $12::uuid, num_nonnulls($12::uuid), json_build_object('broadcast_id', id)`;

// A broadcast and the job that acts on it are written by one statement: neither is ever there without the other.
const acceptPlain = sql(
  'accept',
  `with input as (
    select * from ${INPUT}) as i (${INPUT_COLUMNS})
  ),
  accepted as (
    ${INSERT_BROADCASTS}
    from input
  ),
  queued as (
    ${INSERT_JOBS}
    from input
    returning id, payload
  )
  select payload ->> 'broadcast_id' as id, id as job_id from queued`,
);

// The key's row decides (primary key of idempotency_keys): a twin waits for the first to commit, then gets no row and writes nothing.
const acceptKeyed = sql(
  'accept_keyed',
  `with input as (
    select * from ${INPUT}, $13::text[], $14::text[], $15::bytea[], $16::text[])
      as i (${INPUT_COLUMNS}, scope, key, request_hash, reply)
  ),
  fresh as (
    insert into idempotency_keys as k (project_id, scope, key, request_hash, status, body, created_at)
    select project_id, scope, key, request_hash, 201, reply, $17
    from input
    on conflict (project_id, scope, key) do update
      set request_hash = excluded.request_hash, status = excluded.status, body = excluded.body, created_at = excluded.created_at
      where k.created_at <= $18
    returning project_id, scope, key
  ),
  chosen as (
    select input.* from input join fresh using (project_id, scope, key)
  ),
  accepted as (
    ${INSERT_BROADCASTS}
    from chosen
  ),
  queued as (
    ${INSERT_JOBS}
    from chosen
    returning id, payload
  )
  select payload ->> 'broadcast_id' as id, id as job_id from queued`,
);
