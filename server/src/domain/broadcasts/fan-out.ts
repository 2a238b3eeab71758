import type { Recipient } from '../../contract/broadcast.ts';
import { textArray, uuidArray } from '../../db/arrays.ts';
import { type Queryable, sql } from '../../db/client.ts';
import { notificationId } from '../../lib/ids.ts';
import { unpackJson } from '../../lib/packed-json.ts';
import { enqueue } from '../../queue/enqueue.ts';
import { type Job, recipientsWeight } from '../../queue/jobs.ts';
import { settle } from '../../queue/settle.ts';
import type { Handler } from '../../queue/worker.ts';
import type { Context } from '../context.ts';
import { type NewEvent, recordEvents } from '../events/record.ts';
import type { NotificationsNew } from '../realtime/messages.ts';
import { type Resolved, resolveUsers } from '../users/resolve.ts';
import { broadcastProcessed, finishBroadcasts } from './finish.ts';
import type { FreshRecipients } from './fresh-recipients.ts';
import { insertNotifications } from './insert-notifications.ts';
import { planDeliveries } from './plan-deliveries.ts';
import { type ReadRecipients, readRecipients } from './recipients.ts';

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
  let committing: readonly Broadcast[] = [];
  const work = context.db.transaction(async (tx) => {
    await settle(
      tx,
      leaseId,
      jobs.map((job) => job.id),
    );
    const broadcasts = await load(tx, context.fresh, jobs);
    const people = broadcasts.flatMap((broadcast) => broadcast.read.people);
    const resolved = await resolveUsers(tx, context.identities, people);
    assignUsers(broadcasts, resolved);
    await insertNotifications(tx, broadcasts);
    const deliveries = await planDeliveries(context, tx, broadcasts);
    await enqueue(tx, deliveries);
    await writeProgress(tx, broadcasts);
    await recordEvents(tx, broadcasts.flatMap(eventsOf));
    committing = broadcasts;
    return { done: broadcasts, resolved, queued: deliveries.length };
  });
  const { done, resolved, queued } = await work.catch((error: unknown) => {
    // The commit's answer was lost. If it was a yes, nobody does this again, so nobody would announce it: let who is connected look.
    const [first] = committing;
    if (first !== undefined) context.bus.publish({ type: 'missed', sinceMs: first.sentAt.getTime() - 1 });
    throw error;
  });
  resolved.remember();
  for (const message of done.map(announcement)) if (message.userIds.length > 0) context.bus.publish(message);
  listener.onNotifications(done.reduce((sum, broadcast) => sum + broadcast.userIds.length, 0));
  if (queued > 0) listener.onDeliveriesQueued();
}

/** A broadcast on its way through the fan-out: each step adds what it found out. */
interface Broadcast {
  id: string;
  projectId: string;
  category: string | null;
  topic: string | null;
  message: Buffer;
  inApp: Buffer | null;
  sentAt: Date;
  /** What its texts add to the weight of its jobs. */
  textWeight: number;
  read: ReadRecipients;
  /** The users addressed, each once, ascending; and their notifications' ids in the same order. */
  userIds: string[];
  notificationIds: string[];
  errors: string[];
  /** Deliveries outside the inbox that wait for an outcome. */
  pending: number;
}

async function load(
  tx: Queryable,
  fresh: FreshRecipients,
  jobs: readonly Job<'fan_out'>[],
): Promise<Broadcast[]> {
  const ids = jobs.map((job) => job.payload.broadcast_id);
  const atHand = fresh.take(ids);
  const rows = await tx.query<{
    id: string;
    project_id: string;
    category: string | null;
    topic: string | null;
    message: Buffer;
    in_app: Buffer | null;
    recipients: Buffer | null;
    now: Date;
  }>(selectBroadcasts, [ids, ids.filter((id) => atHand.has(id))]);
  const weights = new Map(jobs.map((job) => [job.payload.broadcast_id, job.weight]));
  return rows.map((row) => {
    const recipients =
      atHand.get(row.id) ?? (row.recipients ? (JSON.parse(unpackJson(row.recipients)) as Recipient[]) : []);
    const read = readRecipients(row.project_id, recipients);
    return {
      id: row.id,
      projectId: row.project_id,
      category: row.category,
      topic: row.topic,
      message: row.message,
      inApp: row.in_app,
      sentAt: row.now,
      textWeight: (weights.get(row.id) ?? 0) - recipientsWeight(recipients.length),
      read,
      userIds: [],
      notificationIds: [],
      errors: read.errors,
      pending: 0,
    };
  });
}

/** Gives each broadcast its users: named twice is addressed once. */
function assignUsers(broadcasts: readonly Broadcast[], resolved: Resolved): void {
  const conflicts = new Map(resolved.conflicts.map((conflict) => [conflict.person, conflict.message]));
  let person = 0;
  for (const broadcast of broadcasts) {
    const users = new Set<string>();
    for (const position of broadcast.read.positions) {
      users.add(resolved.userIds[person] as string);
      const conflict = conflicts.get(person);
      if (conflict !== undefined) broadcast.errors.push(`recipients.${position}: ${conflict}`);
      person += 1;
    }
    // Sorted, so that the rows go into the primary key from left to right.
    broadcast.userIds = [...users].sort();
    broadcast.notificationIds = broadcast.userIds.map((userId) => notificationId(broadcast.id, userId));
  }
}

async function writeProgress(tx: Queryable, broadcasts: readonly Broadcast[]): Promise<void> {
  const reached = broadcasts.filter((broadcast) => broadcast.userIds.length > 0);
  await tx.query(insertBroadcastUsers, [
    uuidArray(reached.map((one) => one.id)),
    textArray(reached.map((one) => uuidArray(one.userIds))),
  ]);
  await tx.query(updateBroadcasts, [
    uuidArray(broadcasts.map((one) => one.id)),
    textArray(broadcasts.map((one) => (one.pending === 0 ? 'processed' : 'processing'))),
    broadcasts.map((one) => one.userIds.length + one.read.unusable),
    broadcasts.map((one) => one.read.unusable),
    broadcasts.map((one) => one.pending),
    textArray(
      broadcasts.map((one) =>
        one.errors.length === 0 ? null : JSON.stringify(one.errors.map((message) => ({ message }))),
      ),
    ),
  ]);
}

function eventsOf(broadcast: Broadcast): NewEvent[] {
  const { projectId, id: broadcastId, userIds } = broadcast;
  const events: NewEvent[] = [{ projectId, type: 'broadcast.created', broadcastId }];
  if (userIds.length > 0) events.push({ projectId, type: 'notification.created', broadcastId, userIds });
  if (broadcast.pending === 0) {
    const failures = broadcast.read.unusable;
    events.push(broadcastProcessed(projectId, broadcastId, { total: userIds.length + failures, failures }));
  }
  return events;
}

function announcement(broadcast: Broadcast): NotificationsNew {
  return {
    type: 'new',
    projectId: broadcast.projectId,
    broadcastId: broadcast.id,
    userIds: broadcast.userIds,
    sentAtMs: broadcast.sentAt.getTime(),
    content: {
      message: broadcast.message,
      inApp: broadcast.inApp,
      category: broadcast.category,
      topic: broadcast.topic,
    },
  };
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

// Primary key. now() is the time of the transaction: one time for all its rows.
const selectBroadcasts = sql(
  'fan_out_load',
  `select id, project_id, category, topic, message, in_app,
    case when id <> all ($2::uuid[]) then recipients end as recipients,
    date_trunc('milliseconds', now()) as now
  from broadcasts
  where id = any ($1::uuid[])
  order by id`,
);
const insertBroadcastUsers = sql(
  'fan_out_users',
  `insert into broadcast_users (broadcast_id, page, user_ids)
  select broadcast_id, 0, user_ids::uuid[]
  from unnest($1::uuid[], $2::text[]) as b (broadcast_id, user_ids)
  on conflict do nothing`,
);
const updateBroadcasts = sql(
  'fan_out_progress',
  `update broadcasts
  set status = p.status, total = p.total, failures = p.failures, pending = p.pending, errors = p.errors::json
  from unnest($1::uuid[], $2::text[], $3::int[], $4::int[], $5::int[], $6::text[])
    as p (id, status, total, failures, pending, errors)
  where broadcasts.id = p.id`,
);
