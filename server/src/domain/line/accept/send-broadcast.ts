import type { NewBroadcast } from '../../../contract/broadcast.ts';
import { problemsWithin } from '../../../contract/problems.ts';
import { isOfOneItem, type Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { Batcher } from '../../../lib/batcher.ts';
import { isId } from '../../../lib/ids.ts';
import type { JsonText } from '../../../lib/json-text.ts';
import { Limiter } from '../../../lib/limiter.ts';
import { isTracing, traced } from '../../../lib/tracing.ts';
import { broadcastsAccepted, notificationsCreated } from '../../../metrics.ts';
import type { Job } from '../../../queue/jobs.ts';
import type { Producer } from '../../../queue/producer.ts';
import { findReplay, type IdempotencyKey } from '../../ground/requests/idempotency.ts';
import { broadcastExists } from '../broadcasts/exists.ts';
import { readAccepted } from '../broadcasts/get.ts';
import { acceptedJson, type BroadcastFormat, type RawBroadcast } from '../broadcasts/stored-broadcast.ts';
import type { LineContext } from '../context/context.ts';
import { shownContent } from '../notifications/contents.ts';
import {
  type BroadcastRequest,
  broadcastProblems,
  findAllKnown,
  findFewKnown,
  hasMany,
  prepare,
  problemsBeyondSchema,
} from './prepare.ts';
import { withTemplate } from './with-template.ts';
import {
  type Accepted,
  type KnownRecipients,
  type Once,
  type PendingBroadcast,
  writeAccepted,
} from './write-accepted.ts';

/** How a broadcast is sent. With an id or a key it is sent at most once. */
export type SendOptions = {
  /** What the broadcast was parsed from: a request that was validated by the schema of a broadcast. */
  raw?: RawBroadcast | undefined;
  /** The JSON that is returned: by default the contract's `Broadcast`. */
  format?: BroadcastFormat;
  /** The name of the broadcast in the request, if it is a member of it: problems name their field with it. */
  within?: string;
  /** What was ignored in the request: reported in `status.errors`. */
  errors?: readonly string[];
} & (
  | {
      /**
       * The id that the broadcast gets: a new one (`newId`), which the caller keeps and sends again after a
       * failure.
       */
      id?: string;
      idempotency?: never;
    }
  | { id?: never; idempotency?: IdempotencyKey | undefined }
);

/** A broadcast that is accepted. */
export interface SentBroadcast {
  id: string;
  /** An earlier call with the same id or key has sent it; this one changed nothing. */
  replayed: boolean;
  /** The broadcast as JSON text: the same for every call with the same id or key. */
  json: JsonText;
}

/**
 * Accepts a broadcast: resolves when it is committed, with the job that fans it out, or with its
 * notifications when they are known (prepare.ts). Every interface sends with it; runs of workflows
 * accept their broadcasts in their own transactions (`prepareBroadcast`). Throws `validation_failed` with all
 * problems, and `idempotency_conflict` for a key that was used for another request.
 */
export async function sendBroadcast(
  { acceptor }: { acceptor: Acceptor },
  project: { id: string },
  broadcast: NewBroadcast,
  options: SendOptions = {},
): Promise<SentBroadcast> {
  assertValid(broadcast, acceptor.now(), options);
  return acceptor.accept({ projectId: project.id, broadcast, ...options });
}

/**
 * Validates a broadcast that is accepted by a transaction of the caller, together with other rows: see
 * `Acceptor.acceptIn`. Throws as `sendBroadcast` does. Returns undefined if it has been sent before, and its
 * template has been deleted since.
 */
export async function prepareBroadcast(
  { acceptor }: { acceptor: Acceptor },
  project: { id: string },
  broadcast: NewBroadcast,
  { id }: { id: string },
): Promise<PendingBroadcast | undefined> {
  assertValid(broadcast, acceptor.now(), { id });
  return acceptor.prepare({ projectId: project.id, broadcast, id });
}

function assertValid(broadcast: NewBroadcast, nowMs: number, { raw, id, within }: SendOptions): void {
  const check = raw === undefined ? broadcastProblems : problemsBeyondSchema;
  const problems = check(broadcast, nowMs);
  if (problems.length > 0) throw new ClientError('validation_failed', problemsWithin(within, problems));
  if (id !== undefined && !isBroadcastId(id)) throw new Error(`${id} cannot be the id of a broadcast`);
}

/** A lower-case UUIDv7: notifications take their time from it. */
function isBroadcastId(id: string): boolean {
  return isId(id) && id[14] === '7' && id === id.toLowerCase();
}

type AcceptContext = Pick<
  LineContext,
  | 'db'
  | 'clock'
  | 'config'
  | 'bus'
  | 'lostResponses'
  | 'recent'
  | 'identities'
  | 'projects'
  | 'integrations'
  | 'categories'
>;

/** The producer of the jobs that fan out. */
interface FanOuts extends Pick<Producer, 'reserve' | 'runs' | 'wake'> {
  /** It has the role to fan out, and does not do so now. */
  readonly isIdle: boolean;
}

/** Accepts these of the prepared broadcasts, in a transaction. If that is repeated, it is called again. */
type AcceptIn = (tx: Queryable, broadcasts: readonly PendingBroadcast[]) => Promise<void>;

/** Broadcasts that are being accepted. */
interface Acceptance {
  write: AcceptIn;
  /** Passes on their jobs and notifications. Returns the ids of those that were not accepted before. */
  committed(): ReadonlySet<string>;
  failed(error: unknown): void;
}

/** The result of one broadcast: a failure does not affect those that were committed with it. */
type AcceptResult = SentBroadcast | { error: unknown };

// No commit starts while a small one is running: that one ends soon, and the broadcasts that arrive meanwhile
// make a larger one, which costs little more. A second one runs beside a large one.
const CONCURRENCY = 2;
const GATHER_BELOW_BYTES = 256 * 1024;
const MAX_BROADCASTS = 512;
const MAX_BYTES = 8 * 1024 * 1024;
// Longer broadcasts are packed and committed alone, as are requests that were parsed in a thread.
const LONG_CHARACTERS = 512 * 1024;

/**
 * Commits broadcasts in groups: those that arrive together share one statement and one commit. It writes each
 * broadcast with the job that fans it out, or with its notifications, and with its idempotency key if it has
 * one. Nothing is accepted before that commit.
 */
export class Acceptor {
  readonly #context: AcceptContext;
  readonly #fanOut: FanOuts;
  readonly #batchers: Record<Once | 'always', Batcher<PendingBroadcast, AcceptResult>>;
  /**
   * Long broadcasts are packed and committed one at a time: 10 MiB keep a processor and the database busy for
   * a part of a second, and others must not wait for several of them.
   */
  readonly #long = new Limiter({ maxCount: 1, maxWeight: Number.POSITIVE_INFINITY });
  /**
   * Notifications to many known users are committed with their broadcast, alone and one at a time. While one
   * is written, or a fan-out runs, others go through the queue, which serves small broadcasts first.
   */
  readonly #many = new Limiter({ maxCount: 1, maxWeight: Number.POSITIVE_INFINITY });

  constructor(context: AcceptContext, fanOut: FanOuts) {
    this.#context = context;
    this.#fanOut = fanOut;
    const batcher = (once?: Once) =>
      new Batcher({
        concurrency: CONCURRENCY,
        gatherBelow: GATHER_BELOW_BYTES,
        maxItems: MAX_BROADCASTS,
        maxWeight: MAX_BYTES,
        weigh: (broadcast: PendingBroadcast) => broadcast.bytes,
        run: (broadcasts) => this.#commit(broadcasts, once),
        // One broadcast may have made the statement fail: the others of the batch must not fail with it.
        splitAfter: isOfOneItem,
      });
    this.#batchers = { always: batcher(), 'by id': batcher('by id'), 'by key': batcher('by key') };
  }

  now(): number {
    return this.#context.clock.now();
  }

  /** Resolves when the broadcast is committed, by this call or by an earlier one with its id or key. */
  accept(given: BroadcastRequest): Promise<SentBroadcast> {
    return inSpan(given, async () => {
      const { template } = given.broadcast;
      const filled = template ? await this.#filled(given, template) : given;
      return 'json' in filled ? filled : this.#accept(filled);
    });
  }

  /** See `prepareBroadcast`. */
  prepare(given: BroadcastRequest & { id: string }): Promise<PendingBroadcast | undefined> {
    return inSpan(given, async () => {
      const { template } = given.broadcast;
      const filled = template ? await this.#filled(given, template) : given;
      return 'json' in filled ? undefined : prepare(filled, this.#context.clock);
    });
  }

  /**
   * Runs a transaction that accepts prepared broadcasts. Each time that it runs, it passes those that it
   * accepts to `accept`, or none. With `once`, those that were accepted before stay as they are; without it,
   * none may have been.
   */
  async acceptIn<Result>(
    broadcasts: readonly PendingBroadcast[],
    { once }: { once: 'by id' | undefined },
    transaction: (accept: AcceptIn) => Promise<Result>,
  ): Promise<Result> {
    if (broadcasts.length === 0) return transaction(async () => {});
    const acceptance = await this.#begin(broadcasts, once);
    const running = transaction((tx, chosen) => acceptance.write(tx, chosen));
    const result = await running.catch((error: unknown) => {
      acceptance.failed(error);
      throw error;
    });
    acceptance.committed();
    return result;
  }

  /** Returns the broadcast with the texts of its template, or that of an earlier call with its id or key. */
  async #filled(
    given: BroadcastRequest,
    template: NonNullable<NewBroadcast['template']>,
  ): Promise<BroadcastRequest | SentBroadcast> {
    const named = await withTemplate(this.#context, given.projectId, given.broadcast, template).catch(
      async (error: unknown) => (await this.#earlier(given)) ?? Promise.reject(error),
    );
    if ('json' in named) return named;
    // The texts of the request are not those of the broadcast.
    return { ...given, ...named, raw: given.raw && { ...given.raw, members: undefined } };
  }

  /** Returns the broadcast of an earlier call, although the template has been deleted since. */
  async #earlier({ projectId, id, idempotency }: BroadcastRequest): Promise<SentBroadcast | undefined> {
    const { db } = this.#context;
    const stored = idempotency && (await findReplay(this.#context, idempotency));
    const earlierId = stored === undefined ? id : (JSON.parse(stored.body) as string);
    if (earlierId === undefined || !(await broadcastExists(db, projectId, earlierId))) return undefined;
    return { id: earlierId, replayed: true, json: await readAccepted(db, projectId, earlierId) };
  }

  async #accept(request: BroadcastRequest): Promise<SentBroadcast> {
    const { id, idempotency, raw, broadcast } = request;
    const once = id !== undefined ? 'by id' : idempotency !== undefined ? 'by key' : undefined;
    const isLong = raw?.members !== undefined || (broadcast.content?.length ?? 0) > LONG_CHARACTERS;
    const { clock } = this.#context;
    const result = isLong
      ? await this.#long.run(1, async () => (await this.#commit([await prepare(request, clock)], once))[0])
      : await this.#acceptShort(await prepare(request, clock), once);
    if (result === undefined) throw new Error('a broadcast has no result');
    if ('error' in result) throw result.error;
    return result;
  }

  async #acceptShort(broadcast: PendingBroadcast, once: Once | undefined): Promise<AcceptResult | undefined> {
    if (hasMany(broadcast) && this.#fanOut.isIdle && this.#many.hasRoom(1)) {
      const known = await findAllKnown(this.#context, broadcast);
      if (known !== undefined)
        return this.#many.run(1, async () => (await this.#commit([broadcast], once, [known]))[0]);
    }
    return this.#batchers[once ?? 'always'].add(broadcast);
  }

  /** Returns the result of each broadcast, in their order. */
  async #commit(
    broadcasts: readonly PendingBroadcast[],
    once: Once | undefined,
    known?: readonly KnownRecipients[],
  ): Promise<AcceptResult[]> {
    const distinct = once === undefined ? broadcasts : firstOfEach(broadcasts, once);
    const acceptance = await this.#begin(distinct, once, known);
    await acceptance.write(this.#context.db, distinct).catch((error: unknown) => {
      acceptance.failed(error);
      throw error;
    });
    const ids = acceptance.committed();
    const response = (one: PendingBroadcast) => ({
      id: one.id,
      replayed: false,
      json: responseTo(one, one.id),
    });
    if (ids.size === broadcasts.length) return broadcasts.map(response);
    const accepted = new Set(distinct.filter(({ id }) => ids.has(id)));
    // The others were accepted before, or are in this batch twice.
    return Promise.all(
      broadcasts.map((one) => (accepted.has(one) ? response(one) : this.#replay(one, once))),
    );
  }

  /** Begins to accept broadcasts. Ends with `committed` or `failed`. */
  async #begin(
    broadcasts: readonly PendingBroadcast[],
    once: Once | undefined,
    allKnown?: readonly KnownRecipients[],
  ): Promise<Acceptance> {
    const { recent, clock, config, lostResponses } = this.#context;
    const recipients = allKnown ?? (await findFewKnown(this.#context, broadcasts));
    const known = new Map(broadcasts.map((one, index) => [one, recipients[index]]));
    const queued = broadcasts.filter((one) => known.get(one) === undefined);
    const reservation = queued.length === 0 ? undefined : this.#fanOut.reserve(queued);
    // A fan-out of the same id may be running with other content.
    if (once !== 'by id')
      for (const { id, projectId, content, recipients, sendAt, template, parts, priority } of queued)
        if (sendAt === null && this.#fanOut.runs({ priority }))
          recent.put(
            id,
            { projectId, content: shownContent(content, template), recipients, template },
            parts.recipientsJson?.length ?? 0,
          );
    const nowMs = clock.now();
    const options = { once, reservation, nowMs, brand: config.BRAND };
    let accepted: Accepted[] = [];
    return {
      write: async (db, chosen) => {
        accepted = [];
        for (const part of partsOf(chosen)) {
          const knownOfPart = part.map((one) => known.get(one));
          accepted.push(await writeAccepted(db, part, knownOfPart, options));
        }
      },
      committed: () => {
        const ids = new Set(accepted.flatMap((part) => [...part.ids]));
        const jobIds = new Map(accepted.flatMap((part) => [...part.jobIds]));
        const jobs = queued.flatMap((one) => fanOutJob(one, jobIds.get(one.id)) ?? []);
        const isHeld = (job: Job) => reservation?.includes(job) === true;
        reservation?.end(jobs.filter(isHeld));
        const ready = jobs.filter((job) => !isHeld(job));
        if (ready.length > 0) this.#fanOut.wake(ready);
        if (once !== 'by id') for (const { id } of queued) if (!jobIds.has(id)) recent.remove(id);
        if (ids.size > 0) broadcastsAccepted.inc(ids.size);
        const sentAtMs = accepted[0]?.sentAt.getTime();
        this.#publish(known, ids, sentAtMs ?? nowMs);
        return ids;
      },
      failed: (error) => {
        reservation?.end([]);
        if (once !== 'by id') for (const { id } of queued) recent.remove(id);
        if (queued.length < broadcasts.length) lostResponses.note(error, nowMs);
      },
    };
  }

  #publish(
    known: ReadonlyMap<PendingBroadcast, KnownRecipients | undefined>,
    accepted: ReadonlySet<string>,
    sentAtMs: number,
  ): void {
    const { bus } = this.#context;
    let notifications = 0;
    for (const [{ id: broadcastId, projectId, content }, recipients] of known) {
      const userIds = recipients?.userIds;
      if (userIds === undefined || !accepted.has(broadcastId)) continue;
      notifications += userIds.length;
      bus.publish({ type: 'new', projectId, broadcastId, userIds, sentAtMs, content });
    }
    if (notifications > 0) notificationsCreated.inc(notifications);
  }

  /** Returns what the first call with the same id or key returned. */
  async #replay(broadcast: PendingBroadcast, once: Once | undefined): Promise<AcceptResult> {
    const { id, projectId, idempotency, template } = broadcast;
    try {
      const { db } = this.#context;
      if (once === 'by id') return { id, replayed: true, json: await readAccepted(db, projectId, id) };
      const stored = idempotency && (await findReplay(this.#context, idempotency));
      if (stored === undefined) throw new ClientError('idempotency_conflict');
      // The id is stored, and the rest of the response follows from the request, which is the same.
      const firstId = JSON.parse(stored.body) as string;
      // Except for the version of a template, which may be another one now.
      const json =
        template === null ? responseTo(broadcast, firstId) : await readAccepted(db, projectId, firstId);
      return { id: firstId, replayed: true, json };
    } catch (error) {
      return { error };
    }
  }
}

/** Runs `accept` as a part of the trace of a broadcast. */
function inSpan<Result extends { id: string } | undefined>(
  { projectId }: BroadcastRequest,
  accept: () => Promise<Result>,
): Promise<Result> {
  if (!isTracing()) return accept();
  const attributes = { 'belfry.project.id': projectId };
  return traced('accept broadcast', { kind: 'producer', attributes }, async (span) => {
    const accepted = await accept();
    if (accepted !== undefined) span?.set({ 'belfry.broadcast.id': accepted.id });
    return accepted;
  });
}

/** The response to a broadcast that is accepted with this id, or was before. */
function responseTo({ parts, named, sendAt, errors, format }: PendingBroadcast, id: string): JsonText {
  return acceptedJson(id, parts, { total: named, sendAt, errors }, format);
}

/** The job that fans the broadcast out, as this process holds it; undefined if it was not written. */
function fanOutJob(broadcast: PendingBroadcast, id: number | undefined): Job<'fan_out'> | undefined {
  if (id === undefined) return undefined;
  const { projectId, priority, weight, traceparent } = broadcast;
  const payload = {
    broadcast_id: broadcast.id,
    created: true as const,
    ...(traceparent === null ? {} : { traceparent }),
  };
  const first = { attempt: 1, cutOffs: 0 };
  return { id, kind: 'fan_out', projectId, partitionKey: projectId, priority, weight, ...first, payload };
}

/** Splits broadcasts so that each statement has a part of limited size. */
function partsOf(broadcasts: readonly PendingBroadcast[]): (readonly PendingBroadcast[])[] {
  const parts: PendingBroadcast[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const one of broadcasts) {
    bytes += one.bytes;
    if (bytes > MAX_BYTES) {
      parts.push([]);
      bytes = one.bytes;
    }
    parts.at(-1)?.push(one);
  }
  return parts;
}

/** The broadcasts without those whose id or key occurs twice: one statement can insert each only once. */
function firstOfEach(broadcasts: readonly PendingBroadcast[], once: Once): PendingBroadcast[] {
  const first = new Map<string, PendingBroadcast>();
  for (const broadcast of broadcasts) {
    const { id, projectId, idempotency } = broadcast;
    const isByKey = once === 'by key' && idempotency !== undefined;
    const name = isByKey ? JSON.stringify([projectId, idempotency.scope, idempotency.key]) : id;
    if (!first.has(name)) first.set(name, broadcast);
  }
  // In one order everywhere, so that two batches with the same ids or keys wait for each other in turn.
  return [...first].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, broadcast]) => broadcast);
}
