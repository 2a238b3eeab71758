import type { Recipient } from '../../contract/broadcast.ts';
import { type Queryable, sql } from '../../db/client.ts';
import { notificationId } from '../../lib/ids.ts';
import { unpackJson } from '../../lib/packed-json.ts';
import { enqueue } from '../../queue/enqueue.ts';
import { type Job, recipientsWeight } from '../../queue/jobs.ts';
import type { Handler } from '../../queue/lane.ts';
import { settle } from '../../queue/settle.ts';
import type { Context } from '../context.ts';
import { type NotificationsNew, newToThese } from '../realtime/messages.ts';
import type { Person } from '../users/plan.ts';
import { type RefusedRecipient, refuseRecipients, USER_WAS_DELETED } from '../users/refuse.ts';
import { type Resolved, resolveUsers, tellOthers } from '../users/resolve.ts';
import { finishBroadcasts } from './finish.ts';
import type { FreshBroadcast, FreshRecipients } from './fresh-recipients.ts';
import { planDeliveries } from './plan-deliveries.ts';
import { readRecipients } from './recipients.ts';
import { type Insertion, writeFanOut } from './write-fan-out.ts';

/** What a fan-out tells the rest of the server, after its commit. */
export interface FanOutListener {
  onNotifications(count: number): void;
  onDeliveriesQueued(): void;
}

/**
 * Turns broadcasts into notifications and deliveries: a whole batch of them in one transaction of a dozen statements, whatever the
 * number of recipients. Running twice changes nothing, because a notification's id is a function of broadcast and user.
 */
export function fanOutHandler(context: Context, listener: FanOutListener): Handler<'fan_out'> {
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
  context: Context,
  listener: FanOutListener,
  jobs: readonly Job<'fan_out'>[],
  leaseId: string,
): Promise<void> {
  const work = await write(context, jobs, leaseId, 'plain').catch((error: unknown) => {
    // A notification is there already: the fan-out was done before, in a database that was put back since.
    if ((error as { code?: unknown }).code !== UNIQUE_VIOLATION) throw error;
    return write(context, jobs, leaseId, 'careful');
  });
  const { broadcasts, resolved, sentAt, queued } = work;
  resolved.remember();
  tellOthers(context.bus, resolved);
  for (const broadcast of broadcasts)
    for (const message of announcements(broadcast, sentAt)) context.bus.publish(message);
  listener.onNotifications(broadcasts.reduce((sum, broadcast) => sum + broadcast.userIds.length, 0));
  if (queued > 0) listener.onDeliveriesQueued();
}

const UNIQUE_VIOLATION = '23505';

interface Written {
  broadcasts: readonly Broadcast[];
  resolved: Resolved;
  sentAt: Date;
  /** Jobs for other channels. */
  queued: number;
}

async function write(
  context: Context,
  jobs: readonly Job<'fan_out'>[],
  leaseId: string,
  insertion: Insertion,
): Promise<Written> {
  let committing: Date | undefined;
  const work = context.db.transaction(async (tx) => {
    const broadcasts = await load(tx, context.fresh, jobs);
    const people = broadcasts.flatMap((broadcast) => broadcast.people);
    const resolved = await resolveUsers(tx, context.identities, people);
    const refused = assignUsers(broadcasts, resolved);
    if (refused.length > 0) await refuseRecipients(tx, refused);
    const plan = await planDeliveries(context, tx, broadcasts);
    await enqueue(tx, plan.jobs);
    const ids = jobs.map((job) => job.id);
    const sentAt = await writeFanOut(tx, { broadcasts, events: plan.events }, { ids, leaseId }, insertion);
    committing = sentAt;
    return { broadcasts, resolved, sentAt, queued: plan.jobs.length };
  });
  return work.catch((error: unknown) => {
    // The commit's answer was lost. If it was a yes, nobody does this again, so nobody would announce it: let who is connected look.
    if (committing !== undefined) context.bus.publish({ type: 'missed', sinceMs: committing.getTime() - 1 });
    throw error;
  });
}

/** A broadcast on its way through the fan-out: each step adds what it found out. */
interface Broadcast {
  id: string;
  projectId: string;
  category: string | null;
  topic: string | null;
  message: Buffer;
  inApp: Buffer | null;
  /** What its texts add to the weight of its jobs. */
  textWeight: number;
  people: readonly Person[];
  /** Where each of `people` stands in the request. */
  positions: readonly number[];
  unusable: number;
  errors: string[];
  /** The users addressed, each once, ascending; and their notifications' ids in the same order. */
  userIds: string[];
  notificationIds: string[];
  /** Deliveries that wait for an outcome: those outside the inbox, and those that the inbox shows later. */
  pending: number;
  /** The users whose inbox does not show it, or not yet. */
  heldBack: Set<string>;
}

/** The jobs' broadcasts, in the order of their ids: as they were accepted a moment ago, or else from the database. */
async function load(
  tx: Queryable,
  fresh: FreshRecipients,
  jobs: readonly Job<'fan_out'>[],
): Promise<Broadcast[]> {
  const weights = new Map(jobs.map((job) => [job.payload.broadcast_id, job.weight]));
  const atHand = fresh.take([...weights.keys()]);
  const stored = await read(
    tx,
    [...weights.keys()].filter((id) => !atHand.has(id)),
  );
  return [...atHand, ...stored]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([id, { recipients, ...broadcast }]) => ({
      id,
      ...broadcast,
      textWeight: (weights.get(id) ?? 0) - recipientsWeight(recipients.length),
      ...readRecipients(broadcast.projectId, recipients),
      userIds: [],
      notificationIds: [],
      pending: 0,
      heldBack: new Set(),
    }));
}

async function read(tx: Queryable, ids: readonly string[]): Promise<[id: string, FreshBroadcast][]> {
  if (ids.length === 0) return [];
  const rows = await tx.query<{
    id: string;
    project_id: string;
    category: string | null;
    topic: string | null;
    message: Buffer;
    in_app: Buffer | null;
    recipients: Buffer | null;
  }>(selectBroadcasts, [ids]);
  return rows.map((row) => [
    row.id,
    {
      projectId: row.project_id,
      category: row.category,
      topic: row.topic,
      message: row.message,
      inApp: row.in_app,
      recipients: row.recipients ? (JSON.parse(unpackJson(row.recipients)) as Recipient[]) : [],
    },
  ]);
}

/** Gives each broadcast its users: named twice is addressed once. Answers who of the named is deleted, and gets nothing. */
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
  const { projectId, id: broadcastId, userIds, heldBack, message, inApp, category, topic } = broadcast;
  const content = { message, inApp, category, topic };
  const all = { projectId, broadcastId, sentAtMs: sentAt.getTime(), content };
  if (heldBack.size > 0)
    return newToThese(
      all,
      userIds.filter((userId) => !heldBack.has(userId)),
    );
  return userIds.length === 0 ? [] : [{ type: 'new', ...all, userIds }];
}

/** A broadcast that cannot be fanned out, by an error of ours, ends as failed for everybody rather than never. */
async function giveUp(context: Context, job: Job<'fan_out'>, leaseId: string): Promise<void> {
  await context.db.transaction(async (tx) => {
    await settle(tx, leaseId, [job.id]);
    await finishBroadcasts(tx, [
      {
        projectId: job.projectId,
        broadcastId: job.payload.broadcast_id,
        error: 'The broadcast could not be processed: internal error',
      },
    ]);
  });
}

// Primary key.
const selectBroadcasts = sql(
  'fan_out_load',
  `select id, project_id, category, topic, message, in_app, recipients
  from broadcasts
  where id = any ($1::uuid[])`,
);
