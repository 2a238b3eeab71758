import { isDatabaseUnavailable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { Batcher } from '../../../lib/batcher.ts';
import type { JsonText } from '../../../lib/json-text.ts';
import { Limiter } from '../../../lib/limiter.ts';
import type { Job } from '../../../queue/jobs.ts';
import type { Worker } from '../../../queue/worker.ts';
import { findReplay } from '../../ground/requests/idempotency.ts';
import { readAccepted } from '../broadcasts/get.ts';
import type { LineContext } from '../context/context.ts';
import type { FreshBroadcast } from '../context/fresh-recipients.ts';
import { findKnownRecipients, type KnownRecipients } from './known-recipients.ts';
import { type NewBroadcastRow, type Once, writeAccepted } from './write-accepted.ts';

/** A broadcast that is ready to be written. */
export interface PendingBroadcast extends NewBroadcastRow {
  /** What its fan-out works with. */
  content: FreshBroadcast;
  bytes: number;
}

/** A broadcast that is accepted. */
export interface SentBroadcast {
  id: string;
  /** An earlier call with the same id or key has sent it; this one changed nothing. */
  replayed: boolean;
  /** The contract's `Broadcast` as JSON text: the same for every call with the same id or key. */
  json: JsonText;
}

/** Notified after each commit. */
export interface AcceptListener {
  onAccepted(broadcasts: number): void;
  onNotifications(count: number): void;
}

type AcceptContext = Pick<
  LineContext,
  'db' | 'clock' | 'config' | 'bus' | 'fresh' | 'identities' | 'integrations' | 'categories'
>;

// No commit begins while a small one is under way: that one ends soon, and what arrives meanwhile makes a
// larger one, which costs little more. A second one runs beside a large one.
const CONCURRENCY = 2;
const GATHER_BELOW_BYTES = 256 * 1024;
const MAX_BROADCASTS = 512;
const MAX_BYTES = 8 * 1024 * 1024;
// The database's clock may be behind ours by as much.
const MAX_CLOCK_SKEW_MS = 60_000;

/**
 * Commits broadcasts in groups: those that arrive together share one statement and one commit. It writes each
 * broadcast with the job that fans it out, or with its notifications, and with its idempotency key if it has
 * one. Nothing is accepted before that commit.
 */
export class Acceptor {
  readonly #context: AcceptContext;
  readonly #worker: Pick<Worker, 'reserve' | 'wake'>;
  readonly #listener: AcceptListener;
  readonly #plain: Batcher<PendingBroadcast, AcceptResult>;
  readonly #once: Record<Once, Batcher<PendingBroadcast, AcceptResult>>;
  /**
   * Long broadcasts are deflated and committed one at a time: 10 MiB keep a processor and the database busy
   * for a part of a second, and others must not wait for several of them.
   */
  readonly #long = new Limiter({ maxCount: 1, maxWeight: Number.POSITIVE_INFINITY });
  /**
   * The start of the first statement whose response was lost. It may have written notifications that were
   * not published.
   */
  #unheardSinceMs: number | undefined;

  constructor(context: AcceptContext, worker: Pick<Worker, 'reserve' | 'wake'>, listener: AcceptListener) {
    this.#context = context;
    this.#worker = worker;
    this.#listener = listener;
    const batcher = (once?: Once) =>
      new Batcher({
        concurrency: CONCURRENCY,
        gatherBelow: GATHER_BELOW_BYTES,
        maxItems: MAX_BROADCASTS,
        maxWeight: MAX_BYTES,
        weigh: (broadcast: PendingBroadcast) => broadcast.bytes,
        run: (broadcasts) => this.#commit(broadcasts, once),
      });
    this.#plain = batcher();
    this.#once = { 'by id': batcher('by id'), 'by key': batcher('by key') };
  }

  /** Resolves when the broadcast is committed, by this call or by an earlier one with its id or key. */
  async accept(
    { once, isLong }: { once: Once | undefined; isLong: boolean },
    prepare: () => Promise<PendingBroadcast>,
  ): Promise<SentBroadcast> {
    const result = await (isLong
      ? this.#long.run(1, async () => this.#commitAlone(await prepare(), once))
      : (once === undefined ? this.#plain : this.#once[once]).add(await prepare()));
    if ('error' in result) throw result.error;
    return result;
  }

  async #commitAlone(broadcast: PendingBroadcast, once: Once | undefined): Promise<AcceptResult> {
    const [result] = await this.#commit([broadcast], once);
    if (result === undefined) throw new Error('a broadcast has no result');
    return result;
  }

  async #commit(broadcasts: PendingBroadcast[], once: Once | undefined): Promise<AcceptResult[]> {
    const results = new Map<PendingBroadcast, AcceptResult>();
    const distinct = once === undefined ? broadcasts : firstOfEach(broadcasts, once);
    const accepted = await this.#insert(distinct, once, results);
    if (accepted > 0) this.#listener.onAccepted(accepted);
    // Broadcasts without a result were accepted before, or are in this batch twice.
    const failed = distinct.filter((one) => 'error' in (results.get(one) ?? {}));
    const repeated = (broadcast: PendingBroadcast) => {
      const twin = failed.find((one) => identityOf(one, once) === identityOf(broadcast, once));
      return twin === undefined ? this.#replay(broadcast, once) : (results.get(twin) as AcceptResult);
    };
    return Promise.all(broadcasts.map((one) => results.get(one) ?? repeated(one)));
  }

  /** Returns how many were accepted. The others have an error as their result, or none. */
  async #insert(
    broadcasts: PendingBroadcast[],
    once: Once | undefined,
    results: Map<PendingBroadcast, AcceptResult>,
  ): Promise<number> {
    try {
      const known = await findKnownRecipients(this.#context, broadcasts);
      const accepted = await this.#write(broadcasts, once, known);
      for (const one of accepted) results.set(one, { id: one.id, replayed: false, json: one.json });
      return accepted.length;
    } catch (error) {
      if (broadcasts.length === 1 || isDatabaseUnavailable(error)) {
        for (const broadcast of broadcasts) results.set(broadcast, { error });
        return 0;
      }
      // One broadcast may have made the statement fail: the others of the batch must not.
      let accepted = 0;
      for (const broadcast of broadcasts) accepted += await this.#insert([broadcast], once, results);
      return accepted;
    }
  }

  /** Writes broadcasts and passes on their jobs and notifications. Returns those that were accepted. */
  async #write(
    broadcasts: readonly PendingBroadcast[],
    once: Once | undefined,
    known: ReadonlyMap<PendingBroadcast, KnownRecipients>,
  ): Promise<PendingBroadcast[]> {
    const { db, fresh, clock, config } = this.#context;
    const queued = broadcasts.filter((one) => !known.has(one));
    const weight = queued.reduce((sum, one) => sum + one.weight, 0);
    const reservation =
      queued.length === 0 ? undefined : this.#worker.reserve('fan_out', queued.length, weight);
    // A fan-out of the same id may be under way with other content.
    if (once !== 'by id') for (const { id, content } of queued) fresh.put(id, content);
    const nowMs = clock.now();
    try {
      const { leaseId } = reservation ?? {};
      const { ids, jobIds, sentAt } = await writeAccepted(db, broadcasts, known, {
        once,
        leaseId,
        nowMs,
        brand: config.BRAND,
      });
      const jobs = queued.flatMap((one) => leasedJob(one, jobIds.get(one.id)) ?? []);
      if (reservation) reservation.end(jobs);
      else if (jobs.length > 0) this.#worker.wake('fan_out');
      if (once === 'by key') fresh.take(queued.flatMap(({ id }) => (jobIds.has(id) ? [] : [id])));
      const accepted = broadcasts.filter(({ id }) => ids.has(id));
      this.#publish(accepted, known, sentAt.getTime());
      return accepted;
    } catch (error) {
      reservation?.end([]);
      if (once !== 'by id') fresh.take(queued.map(({ id }) => id));
      if (known.size > 0 && isDatabaseUnavailable(error)) this.#unheardSinceMs ??= nowMs;
      throw error;
    }
  }

  #publish(
    accepted: readonly PendingBroadcast[],
    known: ReadonlyMap<PendingBroadcast, KnownRecipients>,
    sentAtMs: number,
  ): void {
    const { bus } = this.#context;
    if (this.#unheardSinceMs !== undefined) {
      bus.publish({ type: 'missed', sinceMs: this.#unheardSinceMs - MAX_CLOCK_SKEW_MS });
      this.#unheardSinceMs = undefined;
    }
    let notifications = 0;
    for (const broadcast of accepted) {
      const userIds = known.get(broadcast)?.userIds;
      if (userIds === undefined) continue;
      notifications += userIds.length;
      const { id: broadcastId, projectId, category, topic } = broadcast;
      const { message, inApp } = broadcast.columns;
      const content = { message, inApp, category, topic };
      bus.publish({ type: 'new', projectId, broadcastId, userIds, sentAtMs, content });
    }
    if (notifications > 0) this.#listener.onNotifications(notifications);
  }

  /** Returns what the first call with the same id or key returned. */
  async #replay(
    { id, projectId, idempotency }: PendingBroadcast,
    once: Once | undefined,
  ): Promise<AcceptResult> {
    try {
      const { db } = this.#context;
      if (once === 'by id') return { id, replayed: true, json: await readAccepted(db, projectId, id) };
      const kept = idempotency && (await findReplay(this.#context, idempotency));
      if (kept === undefined) throw new ClientError('idempotency_conflict');
      return { id: ID_IN_JSON.exec(kept.body)?.[1] ?? '', replayed: true, json: kept.body };
    } catch (error) {
      return { error };
    }
  }
}

const ID_IN_JSON = /^\{"id":"([^"]*)"/;

/** The result of one broadcast: a failure does not affect those that were committed with it. */
type AcceptResult = SentBroadcast | { error: unknown };

/** The broadcast's job, written as leased to this process. */
function leasedJob(broadcast: PendingBroadcast, id: number | undefined): Job<'fan_out'> | undefined {
  if (id === undefined) return undefined;
  const { projectId, priority, weight } = broadcast;
  const payload = { broadcast_id: broadcast.id };
  return { id, kind: 'fan_out', projectId, partitionKey: projectId, priority, weight, attempt: 1, payload };
}

/** The broadcasts without those whose id or key occurs twice: one statement can insert each only once. */
function firstOfEach(broadcasts: readonly PendingBroadcast[], once: Once): PendingBroadcast[] {
  const first = new Map<string, PendingBroadcast>();
  for (const broadcast of broadcasts) {
    const identity = identityOf(broadcast, once);
    if (!first.has(identity)) first.set(identity, broadcast);
  }
  // In one order everywhere, so that two batches with the same ids or keys wait for each other in turn.
  return [...first].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, broadcast]) => broadcast);
}

function identityOf({ id, projectId, idempotency }: PendingBroadcast, once: Once | undefined): string {
  if (once !== 'by key' || idempotency === undefined) return id;
  return JSON.stringify([projectId, idempotency.scope, idempotency.key]);
}
