import { notificationId } from '../../../lib/ids.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import type { Job } from '../../../queue/jobs.ts';
import type { Handler } from '../../../queue/lane.ts';
import { settle } from '../../../queue/settle.ts';
import { type NotificationsNew, newToThese } from '../../ground/bus/messages.ts';
import { type RefusedRecipient, refuseRecipients, USER_WAS_DELETED } from '../../people/users/refuse.ts';
import { type Resolved, resolveUsers, tellOthers } from '../../people/users/resolve.ts';
import type { LineContext } from '../context/context.ts';
import { addError, countDown, finishBroadcasts, PAGES_WRITTEN } from '../ledger/finish.ts';
import { type Broadcast, loadBroadcasts } from './load.ts';
import { planDeliveries } from './plan-deliveries.ts';
import { addSubscribers, countDownPages, jobsOfNextPages, lockForPages } from './topic-pages.ts';
import { type Insertion, writeFanOut } from './write-fan-out.ts';

/** What a fan-out tells the rest of the server, after its commit. */
export interface FanOutListener {
  onNotifications(count: number): void;
  onDeliveriesQueued(): void;
  onPagesQueued(): void;
}

/**
 * Turns broadcasts into notifications and deliveries: a whole batch of them in one transaction of a dozen
 * statements, whatever the number of recipients; the subscribers of a topic come page by page
 * (topic-pages.ts). Running twice changes nothing, because a notification's id is a function of broadcast and
 * user.
 */
export function fanOutHandler(context: LineContext, listener: FanOutListener): Handler<'fan_out'> {
  return {
    slots: 2,
    slotsPerProject: 2,
    gatherBelow: 500,
    maxJobs: 256,
    // About 50 ms of work: long enough to share the costs of a commit, short enough that nobody waits for it.
    maxWeight: 4_000,
    maxProjects: 32,
    run: (jobs, leaseId) => fanOut(context, listener, jobs, leaseId),
    giveUp: (job, leaseId) => giveUp(context, job, leaseId),
  };
}

async function fanOut(
  context: LineContext,
  listener: FanOutListener,
  jobs: readonly Job<'fan_out'>[],
  leaseId: string,
): Promise<void> {
  const work = await write(context, jobs, leaseId, 'plain').catch((error: unknown) => {
    // A notification is there already: the fan-out was done before, in a database that was put back since.
    if ((error as { code?: unknown }).code !== UNIQUE_VIOLATION) throw error;
    return write(context, jobs, leaseId, 'careful');
  });
  const { broadcasts, resolved, sentAt, queued, pages } = work;
  resolved.remember();
  tellOthers(context.bus, resolved);
  for (const broadcast of broadcasts)
    for (const message of announcements(broadcast, sentAt)) context.bus.publish(message);
  listener.onNotifications(broadcasts.reduce((sum, broadcast) => sum + broadcast.userIds.length, 0));
  if (queued > 0) listener.onDeliveriesQueued();
  if (pages > 0) listener.onPagesQueued();
}

const UNIQUE_VIOLATION = '23505';

interface Written {
  broadcasts: readonly Broadcast[];
  resolved: Resolved;
  sentAt: Date;
  /** Jobs for other channels. */
  queued: number;
  /** Jobs for further pages of users. */
  pages: number;
}

async function write(
  context: LineContext,
  jobs: readonly Job<'fan_out'>[],
  leaseId: string,
  insertion: Insertion,
): Promise<Written> {
  let committing: Date | undefined;
  const work = context.db.transaction(async (tx) => {
    const broadcasts = await loadBroadcasts(tx, context.fresh, jobs);
    const people = broadcasts.flatMap((broadcast) => broadcast.people);
    const resolved = await resolveUsers(tx, context.identities, people);
    const refused = assignUsers(broadcasts, resolved);
    if (refused.length > 0) await refuseRecipients(tx, refused);
    await addSubscribers(context, tx, broadcasts);
    const plan = await planDeliveries(context, tx, broadcasts);
    const pages = jobsOfNextPages(broadcasts);
    await enqueue(tx, [...plan.jobs, ...pages]);
    await lockForPages(tx, broadcasts);
    const ids = jobs.map((job) => job.id);
    const sentAt = await writeFanOut(
      tx,
      { broadcasts, events: plan.events, brand: context.config.BRAND },
      { ids, leaseId },
      insertion,
    );
    await countDownPages(tx, broadcasts);
    committing = sentAt;
    return { broadcasts, resolved, sentAt, queued: plan.jobs.length, pages: pages.length };
  });
  return work.catch((error: unknown) => {
    // The commit's answer was lost. If it was a yes, nobody does this again, so nobody would announce it: let
    // who is connected look.
    if (committing !== undefined) context.bus.publish({ type: 'missed', sinceMs: committing.getTime() - 1 });
    throw error;
  });
}

/**
 * Gives each broadcast its users: named twice is addressed once. Answers who of the named is deleted, and
 * gets nothing.
 */
function assignUsers(broadcasts: readonly Broadcast[], resolved: Resolved): RefusedRecipient[] {
  const refused: RefusedRecipient[] = [];
  const conflicts = new Map(resolved.conflicts.map((conflict) => [conflict.person, conflict.message]));
  let person = 0;
  for (const broadcast of broadcasts) {
    const users = new Set<string>();
    for (const position of broadcast.positions) {
      const userId = resolved.userIds[person] as string;
      if (resolved.refused.has(person)) {
        refused.push({ userId, broadcastId: broadcast.id });
        broadcast.unusable += 1;
        broadcast.errors.push(`recipients.${position}: ${USER_WAS_DELETED}`);
      } else users.add(userId);
      const conflict = conflicts.get(person);
      if (conflict !== undefined) broadcast.errors.push(`recipients.${position}: ${conflict}`);
      person += 1;
    }
    // Sorted, so that the rows go into the primary key from left to right.
    broadcast.userIds = [...users].sort();
    broadcast.notificationIds = broadcast.userIds.map((userId) => notificationId(broadcast.id, userId));
  }
  return refused;
}

function announcements(broadcast: Broadcast, sentAt: Date): NotificationsNew[] {
  const { projectId, id: broadcastId, userIds, heldBack, texts, category, topic, page } = broadcast;
  const content = texts && { content: { ...texts, category, topic } };
  const all = { projectId, broadcastId, sentAtMs: sentAt.getTime(), ...content };
  if (heldBack.size > 0)
    return newToThese(
      all,
      userIds.filter((userId) => !heldBack.has(userId)),
    );
  if (userIds.length === 0) return [];
  return [{ type: 'new', ...all, userIds, ...(broadcast.subscribers ? { page } : {}) }];
}

/**
 * A broadcast that cannot be fanned out, by an error of ours, ends as failed for everybody rather than never;
 * or where it has come to.
 */
async function giveUp(
  context: LineContext,
  { id, projectId, payload }: Job<'fan_out'>,
  leaseId: string,
): Promise<void> {
  const { broadcast_id: broadcastId, page } = payload;
  await context.db.transaction(async (tx) => {
    await settle(tx, leaseId, [id]);
    if (page === undefined) {
      const error = 'The broadcast could not be processed: internal error';
      await finishBroadcasts(tx, [{ projectId, broadcastId, error }]);
    } else {
      await addError(tx, broadcastId, 'Not all subscribers of the topic could be reached: internal error');
      await countDown(tx, new Map([[broadcastId, PAGES_WRITTEN]]));
    }
  });
}
