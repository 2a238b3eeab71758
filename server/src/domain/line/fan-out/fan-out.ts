import { complete } from '../../../queue/complete.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import type { Handler } from '../../../queue/handler.ts';
import type { Job } from '../../../queue/jobs.ts';
import { type NotificationsNew, newToThese } from '../../ground/bus/messages.ts';
import { type RefusedRecipient, refuseRecipients, USER_WAS_DELETED } from '../../people/users/refuse.ts';
import { publishChanges, type Resolved, resolveUsers } from '../../people/users/resolve.ts';
import type { LineContext } from '../context/context.ts';
import { addError, countDown, finishBroadcasts, PAGES_WRITTEN } from '../ledger/finish.ts';
import { type AddressedBroadcast, type LoadedBroadcast, loadBroadcasts } from './load.ts';
import { type BroadcastPlan, loadPlanInputs, planDeliveries } from './plan-deliveries.ts';
import {
  addSubscribers,
  countDownPages,
  jobsOfNextPages,
  lockForPages,
  withNotifications,
} from './topic-pages.ts';
import { type FannedOut, type Insertion, writeFanOut } from './write-fan-out.ts';

/** Notified after the commit of a fan-out. */
export interface FanOutListener {
  onNotifications(count: number): void;
  onDeliveriesQueued(): void;
  onPagesQueued(): void;
}

/**
 * Turns broadcasts into notifications and deliveries: a batch of them in one transaction of a dozen
 * statements, for any number of recipients. The subscribers of a topic follow page by page (topic-pages.ts).
 * Running twice changes nothing, because a notification's id is a function of broadcast and user.
 */
export function fanOutHandler(context: LineContext, listener: FanOutListener): Handler<'fan_out'> {
  return {
    slots: 2,
    slotsPerPartition: 2,
    gatherBelow: 500,
    maxJobs: 256,
    // About 50 ms of work: long enough to share the costs of a commit, short enough not to delay others.
    maxWeight: 4_000,
    maxPartitions: 32,
    run: (jobs, leaseId) => fanOut(context, listener, jobs, leaseId),
    discard: (job, leaseId) => discard(context, job, leaseId),
  };
}

async function fanOut(
  context: LineContext,
  listener: FanOutListener,
  jobs: readonly Job<'fan_out'>[],
  leaseId: string,
): Promise<void> {
  const written = await write(context, jobs, leaseId, 'plain').catch((error: unknown) => {
    // A notification exists already: this fan-out was done before, in a database that was restored since.
    if ((error as { code?: unknown }).code !== UNIQUE_VIOLATION) throw error;
    return write(context, jobs, leaseId, 'careful');
  });
  const { broadcasts, plans, resolved, sentAt, pages } = written;
  resolved.remember();
  publishChanges(context.bus, resolved);
  for (const [index, broadcast] of broadcasts.entries())
    for (const message of newNotifications(broadcast, plans[index]?.hidden ?? NONE, sentAt))
      context.bus.publish(message);
  listener.onNotifications(broadcasts.reduce((sum, broadcast) => sum + broadcast.userIds.length, 0));
  if (plans.some((plan) => plan.jobs.length > 0)) listener.onDeliveriesQueued();
  if (pages > 0) listener.onPagesQueued();
}

const UNIQUE_VIOLATION = '23505';
const NONE: ReadonlySet<string> = new Set();

/** A fan-out that is committed. */
interface WrittenFanOut {
  broadcasts: readonly AddressedBroadcast[];
  /** In the order of the broadcasts. */
  plans: readonly BroadcastPlan[];
  resolved: Resolved;
  sentAt: Date;
  /** How many jobs for further pages were queued. */
  pages: number;
}

async function write(
  context: LineContext,
  jobs: readonly Job<'fan_out'>[],
  leaseId: string,
  insertion: Insertion,
): Promise<WrittenFanOut> {
  let committing: Date | undefined;
  const written = context.db.transaction(async (tx) => {
    const loaded = await loadBroadcasts(tx, context.fresh, jobs);
    const people = loaded.flatMap((broadcast) => broadcast.people);
    const resolved = await resolveUsers(tx, context.identities, people);
    const { addressed, refused } = assignUsers(loaded, resolved);
    if (refused.length > 0) await refuseRecipients(tx, refused);
    const broadcasts = await addSubscribers(context, tx, addressed);
    const plans = planDeliveries(await loadPlanInputs(context, tx, broadcasts));
    const pages = jobsOfNextPages(broadcasts);
    await enqueue(tx, [...plans.flatMap((plan) => plan.jobs), ...pages]);
    await lockForPages(tx, broadcasts);
    const ids = jobs.map((job) => job.id);
    const events = plans.flatMap((plan) => plan.events);
    const fannedOut = broadcasts.map((broadcast, index) => toWrite(broadcast, plans[index] as BroadcastPlan));
    const input = { broadcasts: fannedOut, events, brand: context.config.BRAND };
    const sentAt = await writeFanOut(tx, input, { ids, leaseId }, insertion);
    await countDownPages(tx, broadcasts);
    committing = sentAt;
    return { broadcasts, plans, resolved, sentAt, pages: pages.length };
  });
  return written.catch((error: unknown) => {
    // The response to the commit was lost. If it succeeded, no job does this again, so nothing would be
    // published: connected users look for what they missed.
    if (committing !== undefined) context.bus.publish({ type: 'missed', sinceMs: committing.getTime() - 1 });
    throw error;
  });
}

/**
 * Assigns users to each broadcast, without duplicates. Returns also the recipients that are deleted users;
 * they get nothing.
 */
function assignUsers(
  broadcasts: readonly LoadedBroadcast[],
  resolved: Resolved,
): { addressed: AddressedBroadcast[]; refused: RefusedRecipient[] } {
  const refused: RefusedRecipient[] = [];
  const conflicts = new Map(resolved.conflicts.map((conflict) => [conflict.person, conflict.message]));
  let person = 0;
  const addressed = broadcasts.map((broadcast) => {
    const users = new Set<string>();
    const errors: string[] = [];
    let unusable = 0;
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
function toWrite(broadcast: AddressedBroadcast, plan: BroadcastPlan): FannedOut {
  const { channels, pending, awaited, hidden } = plan;
  const pagesFollow = broadcast.page === 0 && broadcast.next !== undefined;
  return { ...broadcast, channels, pending, hidden, awaited: awaited + (pagesFollow ? 1 : 0) };
}

/** The messages for the connected users whose inbox shows the broadcast. */
function newNotifications(
  broadcast: AddressedBroadcast,
  hidden: ReadonlySet<string>,
  sentAt: Date,
): NotificationsNew[] {
  const { projectId, id: broadcastId, userIds, texts, category, topic, page } = broadcast;
  const content = texts && { content: { ...texts, category, topic } };
  const all = { projectId, broadcastId, sentAtMs: sentAt.getTime(), ...content };
  if (hidden.size > 0)
    return newToThese(
      all,
      userIds.filter((userId) => !hidden.has(userId)),
    );
  if (userIds.length === 0) return [];
  return [{ type: 'new', ...all, userIds, ...(broadcast.subscribers ? { page } : {}) }];
}

/**
 * Ends a broadcast whose fan-out fails by an error of ours: as failed for everybody or, after the first page,
 * with an error and without the other pages.
 */
async function discard(
  context: LineContext,
  { id, projectId, payload }: Job<'fan_out'>,
  leaseId: string,
): Promise<void> {
  const { broadcast_id: broadcastId, page } = payload;
  await context.db.transaction(async (tx) => {
    await complete(tx, leaseId, [id]);
    if (page === undefined) {
      const error = 'The broadcast could not be processed: internal error';
      await finishBroadcasts(tx, [{ projectId, broadcastId, error }]);
    } else {
      await addError(tx, broadcastId, 'Not all subscribers of the topic could be reached: internal error');
      await countDown(tx, new Map([[broadcastId, PAGES_WRITTEN]]));
    }
  });
}
