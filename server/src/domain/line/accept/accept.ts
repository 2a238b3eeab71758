import { isDatabaseUnavailable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { Batcher } from '../../../lib/batcher.ts';
import { newId } from '../../../lib/ids.ts';
import { Limiter } from '../../../lib/limiter.ts';
import { BULK, fanOutWeight, type Job, priorityFor } from '../../../queue/jobs.ts';
import type { Worker } from '../../../queue/worker.ts';
import { findReplay, type IdempotencyKey } from '../../ground/requests/idempotency.ts';
import { overrideProblems } from '../broadcasts/override-problems.ts';
import { topicProblems } from '../broadcasts/recipients.ts';
import { acceptedJson, packed, type SentBroadcast, storedBody } from '../broadcasts/wire.ts';
import type { LineContext } from '../context/context.ts';
import type { FreshBroadcast } from '../context/fresh-recipients.ts';
import { type AtOnce, reachedAtOnce } from './at-once.ts';
import { type Accepting, writeAccepted } from './write-accepted.ts';

/** What became of a request to send: accepted now, or earlier under the same key. */
export type Acceptance = { replayed: boolean; status: number; json: string | Buffer };

/** What is told of what was accepted, after the commit. */
export interface AcceptListener {
  onAccepted(broadcasts: number): void;
  onNotifications(count: number): void;
}

type AcceptContext = Pick<
  LineContext,
  'db' | 'clock' | 'config' | 'bus' | 'fresh' | 'identities' | 'integrations' | 'categories'
>;

// While a small commit is under way no other begins: it soon ends, and what comes meanwhile makes a larger
// one, which costs little more. A large one has another beside it.
const CONCURRENCY = 2;
const GATHER_BELOW_BYTES = 256 * 1024;
const MAX_BROADCASTS = 512;
const MAX_BYTES = 8 * 1024 * 1024;
// By so much the database's clock may be behind ours.
const CLOCKS_DIFFER_MS = 60_000;

/**
 * Takes broadcasts in. Requests that arrive together share one statement and one commit: the broadcast, the
 * job that will fan it out, or its notifications where they are known already (at-once.ts), and, where the
 * client sent one, the idempotency key with its answer. Nothing is accepted before that commit.
 */
export class Acceptor {
  readonly #context: AcceptContext;
  readonly #worker: Pick<Worker, 'reserve' | 'wake'>;
  readonly #listener: AcceptListener;
  readonly #plain: Batcher<Entry, Outcome>;
  readonly #keyed: Batcher<Entry, Outcome>;
  /**
   * Long broadcasts are deflated and committed one at a time, each by itself: one of 10 MiB takes a processor
   * and the database for a part of a second, and others must not wait for several of them.
   */
  readonly #long = new Limiter({ maxCount: 1, maxWeight: Number.POSITIVE_INFINITY });
  /**
   * When the first statement was sent of those whose answer was lost: its notifications may be there, and
   * nobody was told of them.
   */
  #unheardSinceMs: number | undefined;

  constructor(context: AcceptContext, worker: Pick<Worker, 'reserve' | 'wake'>, listener: AcceptListener) {
    this.#context = context;
    this.#worker = worker;
    this.#listener = listener;
    const batching = {
      concurrency: CONCURRENCY,
      gatherBelow: GATHER_BELOW_BYTES,
      maxItems: MAX_BROADCASTS,
      maxWeight: MAX_BYTES,
      weigh: (entry: Entry) => entry.bytes,
    };
    this.#plain = new Batcher({ ...batching, run: (entries) => this.#commit(entries, entries) });
    this.#keyed = new Batcher({
      ...batching,
      run: (entries) => this.#commit(entries, firstOfEachKey(entries)),
    });
  }

  /**
   * Resolves when the broadcast is committed. Throws `idempotency_conflict` for a key that was used for
   * another request, and `validation_failed` where the subscribers of no topic are addressed, or an override
   * can be merged into nothing.
   */
  async accept(projectId: string, sent: SentBroadcast, idempotency?: IdempotencyKey): Promise<Acceptance> {
    const problems = [...topicProblems(sent.body), ...overrideProblems(sent.body)];
    if (problems.length > 0) throw new ClientError('validation_failed', problems);
    const entry = () => entryOf(projectId, newId(this.#context.clock.now()), sent, idempotency);
    const outcome = await (isLong(sent)
      ? this.#long.run(1, async () => this.#commitAlone(await entry()))
      : (idempotency === undefined ? this.#plain : this.#keyed).add(await entry()));
    if ('error' in outcome) throw outcome.error;
    return outcome;
  }

  async #commitAlone(entry: Entry): Promise<Outcome> {
    const [outcome] = await this.#commit([entry], [entry]);
    if (outcome === undefined) throw new Error('a broadcast has no outcome');
    return outcome;
  }

  async #commit(entries: Entry[], distinct: Entry[]): Promise<Outcome[]> {
    const outcomes = new Map<Entry, Outcome>();
    const accepted = await this.#insert(distinct, outcomes);
    if (accepted > 0) this.#listener.onAccepted(accepted);
    // Entries without an outcome reused a key: an earlier one, or that of another entry of this batch.
    const failed = distinct.filter((entry) => 'error' in (outcomes.get(entry) ?? {}));
    const outcomeOf = (entry: Entry) => {
      const twin = failed.find((one) => haveSameKey(one, entry));
      return twin === undefined ? this.#answerRepeat(entry) : (outcomes.get(twin) as Outcome);
    };
    return Promise.all(entries.map((entry) => outcomes.get(entry) ?? outcomeOf(entry)));
  }

  /** Answers how many were accepted. Who has no outcome then was not. */
  async #insert(entries: Entry[], outcomes: Map<Entry, Outcome>): Promise<number> {
    try {
      const reached = await reachedAtOnce(this.#context, entries);
      const accepted = await this.#write(entries, reached);
      for (const entry of accepted) outcomes.set(entry, { replayed: false, status: 201, json: entry.json });
      return accepted.length;
    } catch (error) {
      if (entries.length === 1 || isDatabaseUnavailable(error)) {
        for (const entry of entries) outcomes.set(entry, { error });
        return 0;
      }
      // What one broadcast did to the statement must not be held against the others of the batch.
      let accepted = 0;
      for (const entry of entries) accepted += await this.#insert([entry], outcomes);
      return accepted;
    }
  }

  /** Writes broadcasts; answers those that were accepted, and hands on what is to be done about them. */
  async #write(entries: readonly Entry[], reached: ReadonlyMap<Entry, AtOnce>): Promise<Entry[]> {
    const { db, fresh, clock, config } = this.#context;
    const queued = entries.filter((entry) => !reached.has(entry));
    const weight = queued.reduce((sum, entry) => sum + entry.weight, 0);
    const reservation =
      queued.length === 0 ? undefined : this.#worker.reserve('fan_out', queued.length, weight);
    for (const { id, atHand } of queued) fresh.put(id, atHand);
    const nowMs = clock.now();
    try {
      const { leaseId } = reservation ?? {};
      const { ids, jobIds, sentAt } = await writeAccepted(db, entries, reached, {
        leaseId,
        nowMs,
        brand: config.BRAND,
      });
      const jobs = queued.flatMap((entry) => leasedJob(entry, jobIds.get(entry.id)) ?? []);
      if (reservation) reservation.end(jobs);
      else if (jobs.length > 0) this.#worker.wake('fan_out');
      // Nobody will ask for those that came before.
      fresh.take(queued.flatMap(({ id }) => (jobIds.has(id) ? [] : [id])));
      const accepted = entries.filter(({ id }) => ids.has(id));
      this.#announce(accepted, reached, sentAt.getTime());
      return accepted;
    } catch (error) {
      reservation?.end([]);
      fresh.take(queued.map(({ id }) => id));
      if (reached.size > 0 && isDatabaseUnavailable(error)) this.#unheardSinceMs ??= nowMs;
      throw error;
    }
  }

  #announce(accepted: readonly Entry[], reached: ReadonlyMap<Entry, AtOnce>, sentAtMs: number): void {
    const { bus } = this.#context;
    if (this.#unheardSinceMs !== undefined) {
      bus.publish({ type: 'missed', sinceMs: this.#unheardSinceMs - CLOCKS_DIFFER_MS });
      this.#unheardSinceMs = undefined;
    }
    let notifications = 0;
    for (const entry of accepted) {
      const userIds = reached.get(entry)?.userIds;
      if (userIds === undefined) continue;
      notifications += userIds.length;
      const { id: broadcastId, projectId, category, topic } = entry;
      const { message, inApp } = entry.columns;
      const content = { message, inApp, category, topic };
      bus.publish({ type: 'new', projectId, broadcastId, userIds, sentAtMs, content });
    }
    if (notifications > 0) this.#listener.onNotifications(notifications);
  }

  /** The answer kept under the entry's key. A key that means another request is a conflict. */
  async #answerRepeat({ idempotency }: Entry): Promise<Outcome> {
    try {
      const kept = idempotency && (await findReplay(this.#context, idempotency));
      if (kept === undefined) throw new ClientError('idempotency_conflict');
      return { replayed: true, status: kept.status, json: kept.body };
    } catch (error) {
      return { error };
    }
  }
}

/** Of each for itself: that one failed says nothing about those that were committed with it. */
type Outcome = Acceptance | { error: unknown };

/** Whether its body was so long that a thread has parsed it. */
function isLong({ texts }: SentBroadcast): boolean {
  return texts !== undefined;
}

interface Entry extends Accepting {
  /** What its fan-out works with. */
  atHand: FreshBroadcast;
  bytes: number;
}

async function entryOf(
  projectId: string,
  id: string,
  sent: SentBroadcast,
  idempotency: IdempotencyKey | undefined,
): Promise<Entry> {
  const stored = storedBody(sent);
  const { category, topic } = stored;
  const columns = await packed(stored);
  const { message, inApp } = columns;
  const json = acceptedJson(id, stored);
  const characters = stored.messageJson.length + (stored.overridesJson?.length ?? 0);
  const { named, subscribers, ofFirstPage } = stored.recipients;
  return {
    id,
    projectId,
    idempotency,
    category,
    topic,
    columns,
    atHand: { projectId, category, topic, message, inApp, recipients: sent.body.recipients ?? [] },
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
function leasedJob(entry: Entry, id: number | undefined): Job<'fan_out'> | undefined {
  if (id === undefined) return undefined;
  const { projectId, priority, weight } = entry;
  const payload = { broadcast_id: entry.id };
  return { id, kind: 'fan_out', projectId, priority, weight, attempt: 1, payload };
}

/**
 * The keyed entries without those whose key came twice in the batch: one statement can take a key only once.
 */
function firstOfEachKey(entries: readonly Entry[]): Entry[] {
  const byKey = new Map<string, Entry>();
  for (const entry of entries) {
    const key = keyOf(entry);
    if (key !== undefined && !byKey.has(key)) byKey.set(key, entry);
  }
  // In one order everywhere, so that two batches that want the same keys do not wait for each other in a
  // circle.
  return [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, entry]) => entry);
}

function haveSameKey(a: Entry, b: Entry): boolean {
  const key = keyOf(a);
  return key !== undefined && key === keyOf(b);
}

function keyOf({ projectId, idempotency }: Entry): string | undefined {
  return idempotency && JSON.stringify([projectId, idempotency.scope, idempotency.key]);
}
