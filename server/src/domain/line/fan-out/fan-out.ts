import type { Recipient } from '../../../contract/broadcast.ts';
import { isUniqueViolation, type Queryable, sql } from '../../../db/client.ts';
import { readJson } from '../../../lib/exact-numbers.ts';
import { unpackJsonInTurns } from '../../../lib/packed-json.ts';
import { isTracing, startSpan } from '../../../lib/tracing.ts';
import { notificationsCreated } from '../../../metrics.ts';
import { complete } from '../../../queue/complete.ts';
import { discardReason } from '../../../queue/discard-reason.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import type { Handler } from '../../../queue/handler.ts';
import { type Job, type JobKind, type NewJob, recipientsWeight } from '../../../queue/jobs.ts';
import { type NotificationsNew, newToThese } from '../../ground/bus/messages.ts';
import { USERS_PER_PAGE } from '../../people/users/next-users.ts';
import { type RefusedRecipient, refuseRecipients, USER_WAS_DELETED } from '../../people/users/refuse.ts';
import { publishChanges, type Resolved, resolveUsers } from '../../people/users/resolve.ts';
import {
  countRecipients,
  isErasedName,
  type NamedRecipients,
  readRecipients,
  USER_WAS_ERASED,
} from '../broadcasts/stored-broadcast.ts';
import type { LineContext } from '../context/context.ts';
import type { RecentBroadcast, RecentBroadcasts } from '../context/recent-broadcasts.ts';
import { addError, countDown, finishBroadcasts, PAGES_WRITTEN } from '../ledger/finish.ts';
import { CONTENT_COLUMNS, type ContentRow, contentOf } from '../notifications/contents.ts';
import { renderInboxTexts } from './inbox-texts.ts';
import { type BroadcastPlan, loadPlanInputs, planDeliveries } from './plan-deliveries.ts';
import { addGroups, countDownPages, jobsOfNextPages, lockKnown } from './topic-pages.ts';
import { keepNames } from './unsent.ts';
import {
  type AddressedPage,
  type BroadcastPage,
  CancelledMeanwhile,
  type FannedOut,
  type Insertion,
  withNotifications,
  writeFanOut,
} from './write-fan-out.ts';

/**
 * Turns broadcasts into notifications and deliveries: a batch of them in one transaction of a dozen
 * statements, for any number of recipients. Groups of users follow page by page (topic-pages.ts).
 * Running twice changes nothing, because a notification's id is a function of broadcast and user.
 */
export function fanOutHandler(context: LineContext): Handler<'fan_out'> {
  return {
    work: 'both',
    slots: 2,
    slotsPerPartition: 2,
    gatherBelow: 500,
    maxJobs: 256,
    // About 50 ms of work: long enough to share the costs of a commit, short enough not to delay others.
    maxWeight: 4_000,
    maxPartitions: 32,
    run: (jobs, leaseId) => (isTracing() ? fanOutTraced : fanOut)(context, jobs, leaseId),
    discard: (job, leaseId, error) => discard(context, job, leaseId, error),
  };
}

/** The same with a span for each broadcast, whose jobs continue it. The batch is one transaction. */
async function fanOutTraced(
  context: LineContext,
  jobs: readonly Job<'fan_out'>[],
  leaseId: string,
): Promise<readonly JobKind[]> {
  const spans = jobs.map(({ projectId, payload: { traceparent: parent, broadcast_id: id, page = 0 } }) =>
    startSpan('fan out broadcast', {
      kind: 'consumer',
      parent,
      attributes: { 'belfry.project.id': projectId, 'belfry.broadcast.id': id, 'belfry.page': page },
    }),
  );
  const continued = jobs.map((job, at) => {
    const traceparent = spans[at]?.traceparent;
    return traceparent === undefined ? job : { ...job, payload: { ...job.payload, traceparent } };
  });
  try {
    return await fanOut(context, continued, leaseId);
  } catch (error) {
    for (const span of spans) span?.fail(error instanceof Error ? error.name : 'unknown');
    throw error;
  } finally {
    for (const span of spans) span?.end();
  }
}

async function fanOut(
  context: LineContext,
  jobs: readonly Job<'fan_out'>[],
  leaseId: string,
): Promise<readonly JobKind[]> {
  const written = await writeOrRetry(context, jobs, leaseId, 'plain');
  const { broadcasts, plans, resolved, sentAt, queued } = written;
  resolved.remember();
  publishChanges(context.bus, resolved);
  for (const [index, broadcast] of broadcasts.entries())
    for (const message of newNotifications(broadcast, plans[index]?.hidden ?? NONE, sentAt))
      context.bus.publish(message);
  notificationsCreated.inc(broadcasts.reduce((sum, { userIds }) => sum + userIds.length, 0));
  return queued;
}

/** Writes the fan-out. Retries if its broadcasts or their notifications are not as expected. */
function writeOrRetry(
  context: LineContext,
  jobs: readonly Job<'fan_out'>[],
  leaseId: string,
  insertion: Insertion,
): Promise<WrittenFanOut> {
  return write(context, jobs, leaseId, insertion).catch((error: unknown) => {
    if (error instanceof CancelledMeanwhile) return writeOrRetry(context, jobs, leaseId, insertion);
    // A notification exists already: this fan-out was done before, in a database that was restored since.
    if (isUniqueViolation(error) && insertion === 'plain')
      return writeOrRetry(context, jobs, leaseId, 'careful');
    throw error;
  });
}

const NONE: ReadonlySet<string> = new Set();

/** A fan-out that is committed. */
interface WrittenFanOut {
  broadcasts: readonly AddressedPage[];
  /** In the order of the broadcasts. */
  plans: readonly BroadcastPlan[];
  resolved: Resolved;
  sentAt: Date;
  /** The kinds of ready jobs that were enqueued. */
  queued: readonly JobKind[];
}

async function write(
  context: LineContext,
  jobs: readonly Job<'fan_out'>[],
  leaseId: string,
  insertion: Insertion,
): Promise<WrittenFanOut> {
  const beganMs = context.clock.now();
  let committing = false;
  const written = context.db.transaction(async (tx) => {
    const loaded = await loadBroadcasts(tx, context.recent, jobs);
    const people = loaded.flatMap((broadcast) => broadcast.people);
    const resolved = await resolveUsers(tx, context.identities, people);
    const { addressed, refused } = assignUsers(loaded, resolved);
    if (refused.length > 0) await refuseRecipients(tx, refused);
    const isPaged = addressed.some(({ group, page }) => group !== undefined || page > 0);
    const pages = isPaged ? await addGroups(context, tx, addressed) : addressed;
    const hasTemplates = pages.some(({ template, userIds }) => template !== null && userIds.length > 0);
    const { pages: broadcasts, events: failures } = hasTemplates
      ? await renderInboxTexts(context, tx, pages, insertion)
      : { pages, events: [] };
    const plans = planDeliveries(await loadPlanInputs(context, tx, broadcasts));
    const following: NewJob[] = plans.flatMap((plan) => plan.jobs);
    if (isPaged) following.push(...jobsOfNextPages(broadcasts));
    await lockKnown(tx, broadcasts);
    const ids = jobs.map((job) => job.id);
    const events = [...failures, ...plans.flatMap((plan) => plan.events)];
    const fannedOut = broadcasts.map((broadcast, index) => toWrite(broadcast, plans[index] as BroadcastPlan));
    const input = { broadcasts: fannedOut, events, brand: context.config.BRAND };
    const [queued, sentAt] = await Promise.all([
      enqueue(tx, following),
      writeFanOut(tx, input, { ids, leaseId }, insertion),
    ]);
    if (isPaged) await countDownPages(tx, broadcasts);
    await keepNames(tx, loaded);
    committing = true;
    return { broadcasts, plans, resolved, sentAt, queued };
  });
  return written.catch((error: unknown) => {
    // If the commit succeeded and its response was lost, no job does this again.
    if (committing) context.lostResponses.note(error, beganMs);
    throw error;
  });
}

/** Loads the broadcasts of jobs, in the order of their ids: from memory if just accepted, or the database. */
async function loadBroadcasts(
  tx: Queryable,
  recent: RecentBroadcasts,
  jobs: readonly Job<'fan_out'>[],
): Promise<BroadcastPage[]> {
  const later = jobs.filter(({ payload }) => payload.page !== undefined);
  const first = later.length === 0 ? jobs : jobs.filter(({ payload }) => payload.page === undefined);
  const broadcasts = await loadFirstPages(tx, recent, first);
  if (later.length > 0) broadcasts.push(...(await loadPages(tx, later)));
  return broadcasts.sort((a, b) => (a.id < b.id ? -1 : 1));
}

async function loadFirstPages(
  tx: Queryable,
  recent: RecentBroadcasts,
  jobs: readonly Job<'fan_out'>[],
): Promise<BroadcastPage[]> {
  const jobOf = new Map(jobs.map((job) => [job.payload.broadcast_id, job]));
  const justAccepted = recent.take([...jobOf.keys()]);
  const stored = await read(
    tx,
    [...jobOf.keys()].filter((id) => !justAccepted.has(id)),
  );
  const loaded: [string, FirstPage][] = [...justAccepted, ...stored];
  return loaded.map(([id, broadcast]) => {
    const { projectId, content, recipients: all, template, cancelled = false, scheduled = false } = broadcast;
    const recipients = cancelled ? [] : all;
    const { named, group, ofFirstPage } = countRecipients(recipients);
    return {
      id,
      projectId,
      category: content.category,
      topic: content.topic,
      ...withoutErased(readRecipients({ projectId, cause: { broadcast_id: id } }, recipients), scheduled),
      page: 0,
      cancelled,
      unsent: cancelled ? readRecipients({ projectId }, all).people : [],
      scheduled,
      lacksCreated: !jobOf.get(id)?.payload.created,
      content,
      template,
      textWeight: (jobOf.get(id)?.weight ?? 0) - recipientsWeight(ofFirstPage),
      traceparent: jobOf.get(id)?.payload.traceparent,
      group: group === undefined ? undefined : { of: group, onThisPage: named === 0, after: undefined },
    };
  });
}

/** A purge may have erased users from the recipients of a broadcast that was scheduled. */
function withoutErased(
  { people, positions }: NamedRecipients,
  scheduled: boolean,
): NamedRecipients & { erased: readonly number[] } {
  const isErased = (_: unknown, index: number) => isErasedName(people[index]?.externalId);
  if (!scheduled || !people.some(isErased)) return { people, positions, erased: [] };
  const isLeft = (_: unknown, index: number) => !isErased(_, index);
  return {
    people: people.filter(isLeft),
    positions: positions.filter(isLeft),
    erased: positions.filter(isErased),
  };
}

/** A broadcast whose first page is written. */
type FirstPage = RecentBroadcast & { cancelled?: boolean; scheduled?: boolean };

async function read(tx: Queryable, ids: readonly string[]): Promise<[id: string, FirstPage][]> {
  if (ids.length === 0) return [];
  const rows = await tx.query<
    ContentRow & {
      id: string;
      project_id: string;
      recipients: Buffer | null;
      template: Buffer | null;
      cancelled: boolean;
      scheduled: boolean;
    }
  >(selectBroadcasts, [ids]);
  return Promise.all(
    rows.map(
      async ({
        id,
        project_id: projectId,
        recipients,
        template,
        cancelled,
        scheduled,
        ...content
      }): Promise<[string, FirstPage]> => [
        id,
        {
          projectId,
          cancelled,
          scheduled,
          template,
          content: contentOf(content),
          recipients: recipients ? (readJson(await unpackJsonInTurns([recipients])) as Recipient[]) : [],
        },
      ],
    ),
  );
}

/** Further pages, without the texts: a topic may have a thousand pages, and the texts megabytes. */
async function loadPages(tx: Queryable, jobs: readonly Job<'fan_out'>[]): Promise<BroadcastPage[]> {
  const pages = new Map(jobs.map((job) => [job.payload.broadcast_id, job]));
  const rows = await tx.query<{
    id: string;
    project_id: string;
    category: string | null;
    topic: string | null;
    template: Buffer | null;
    cancelled: boolean;
    scheduled: boolean;
  }>(selectOfPages, [[...pages.keys()]]);
  return rows.map(({ project_id: projectId, ...row }) => {
    const { payload, weight } = pages.get(row.id) as Job<'fan_out'>;
    const { page = 0, after, everyone, traceparent } = payload;
    const of = everyone ? 'everyone' : 'subscribers';
    return {
      ...row,
      projectId,
      content: undefined,
      people: [],
      positions: [],
      erased: [],
      unsent: [],
      textWeight: weight - USERS_PER_PAGE,
      traceparent,
      lacksCreated: false,
      page,
      group: row.cancelled ? undefined : { of, onThisPage: true, after },
    };
  });
}

/**
 * Assigns users to each broadcast, without duplicates. Returns also the recipients that are deleted users;
 * they get nothing.
 */
function assignUsers(
  broadcasts: readonly BroadcastPage[],
  resolved: Resolved,
): { addressed: AddressedPage[]; refused: RefusedRecipient[] } {
  const refused: RefusedRecipient[] = [];
  const conflicts = new Map(resolved.conflicts.map((conflict) => [conflict.person, conflict.message]));
  let person = 0;
  const addressed = broadcasts.map((broadcast) => {
    const users = new Set<string>();
    const errors = broadcast.erased.map((position) => `recipients.${position}: ${USER_WAS_ERASED}`);
    let unusable = broadcast.erased.length;
    for (const position of broadcast.positions) {
      const userId = resolved.userIds[person] as string;
      if (resolved.refused.has(person)) {
        refused.push({ userId, broadcastId: broadcast.id });
        unusable += 1;
        errors.push(`recipients.${position}: ${USER_WAS_DELETED}`);
      } else users.add(userId);
      const conflict = conflicts.get(person);
      if (conflict !== undefined) errors.push(`recipients.${position}: ${conflict}`);
      person += 1;
    }
    return { ...broadcast, ...withNotifications(broadcast.id, users), unusable, errors, next: undefined };
  });
  return { addressed, refused };
}

/** The first page awaits all further pages as one. */
function toWrite(broadcast: AddressedPage, plan: BroadcastPlan): FannedOut {
  const { channels, pending, awaited, hidden } = plan;
  const pagesFollow = broadcast.page === 0 && broadcast.next !== undefined;
  return { ...broadcast, channels, pending, hidden, awaited: awaited + (pagesFollow ? 1 : 0) };
}

/** The messages for the connected users whose inbox shows the broadcast. */
function newNotifications(
  broadcast: AddressedPage,
  hidden: ReadonlySet<string>,
  sentAt: Date,
): NotificationsNew[] {
  const { projectId, id: broadcastId, userIds, content, page } = broadcast;
  const all = { projectId, broadcastId, sentAtMs: sentAt.getTime(), ...(content && { content }) };
  if (hidden.size > 0)
    return newToThese(
      all,
      userIds.filter((userId) => !hidden.has(userId)),
    );
  if (userIds.length === 0) return [];
  return [{ type: 'new', ...all, userIds, ...(broadcast.group ? { page } : {}) }];
}

/**
 * Ends a broadcast whose fan-out fails by an error of ours: as failed for all users or, after the first page,
 * with an error and without the other pages.
 */
async function discard(
  context: LineContext,
  job: Job<'fan_out'>,
  leaseId: string,
  cause: unknown,
): Promise<void> {
  const { id, projectId, payload } = job;
  const { broadcast_id: broadcastId, page, everyone } = payload;
  const reason = discardReason(job, cause);
  await context.db.transaction(async (tx) => {
    await complete(tx, leaseId, [id]);
    if (page === undefined) {
      const error = `The broadcast could not be processed: ${reason}`;
      await finishBroadcasts(tx, [{ projectId, broadcastId, error }]);
    } else {
      const group = everyone ? 'users' : 'subscribers of the topic';
      await addError(tx, broadcastId, `Not all ${group} could be reached: ${reason}`);
      await countDown(tx, new Map([[broadcastId, PAGES_WRITTEN]]));
    }
  });
}

// Primary key, both.
const selectBroadcasts = sql(
  'fan_out_load',
  `select id, project_id, ${CONTENT_COLUMNS}, recipients, template, cancelled_at is not null as cancelled,
    send_at is not null as scheduled
  from broadcasts
  where id = any ($1::uuid[])`,
);
const selectOfPages = sql(
  'fan_out_load_pages',
  `select id, project_id, category, topic, template, cancelled_at is not null as cancelled,
    send_at is not null as scheduled
  from broadcasts
  where id = any ($1::uuid[])`,
);
