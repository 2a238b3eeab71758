import { uuidArray } from '../../db/arrays.ts';
import { type Queryable, sql } from '../../db/client.ts';
import { type NewJob, priorityFor } from '../../queue/jobs.ts';
import type { Context } from '../context.ts';
import { chooseChannels } from '../deliveries/choose-channels.ts';
import { type SwitchedOff, switchedOff } from '../preferences/switched-off.ts';

/** A broadcast whose users are known; `pending` is counted up by the deliveries that are planned for it. */
interface Deliverable {
  id: string;
  projectId: string;
  category: string | null;
  /** What its texts add to the weight of its jobs. */
  textWeight: number;
  userIds: readonly string[];
  pending: number;
}

// A chunk of recipients on one channel is one job: small enough that its outcomes are soon written down, large enough that the
// queue's cost vanishes beside the sending.
const RECIPIENTS_PER_DELIVERY = 100;
// A delivery reads and renders the texts, a fan-out hands them on as they are stored; but its batches are smaller to begin with.
const FEWER_TEXTS = 32;

/** The jobs that bring each broadcast to the channels outside the inbox. */
export async function planDeliveries(
  context: Context,
  tx: Queryable,
  broadcasts: readonly Deliverable[],
): Promise<NewJob<'deliver'>[]> {
  const jobs: NewJob<'deliver'>[] = [];
  for (const [projectId, group] of Map.groupBy(broadcasts, (broadcast) => broadcast.projectId)) {
    const available = new Set(
      (await context.integrations.of(projectId)).map((integration) => integration.channel),
    );
    if (available.size === 0) continue;
    const reachable = await tx.query<{ id: string }>(selectWithEmail, [
      uuidArray([...new Set(group.flatMap((one) => one.userIds))]),
    ]);
    const withEmail = new Set(reachable.map((row) => row.id));
    const off = await switchedOff(tx, group);
    for (const broadcast of group)
      jobs.push(...deliveriesOf(broadcast, { available, withEmail, off, nowMs: context.clock.now() }));
  }
  return jobs;
}

const EMAIL: ReadonlySet<string> = new Set(['email']);
const NONE: ReadonlySet<string> = new Set();

function deliveriesOf(
  broadcast: Deliverable,
  known: {
    available: ReadonlySet<string>;
    withEmail: ReadonlySet<string>;
    off: SwitchedOff;
    nowMs: number;
  },
): NewJob<'deliver'>[] {
  const byChannel = new Map<string, string[]>();
  for (const userId of broadcast.userIds) {
    const reachable = known.withEmail.has(userId) ? EMAIL : NONE;
    const switchedOff = known.off(broadcast.category, userId);
    for (const channel of chooseChannels({ available: known.available, reachable, switchedOff })) {
      const users = byChannel.get(channel);
      if (users) users.push(userId);
      else byChannel.set(channel, [userId]);
    }
  }
  const jobs: NewJob<'deliver'>[] = [];
  for (const [channel, users] of byChannel) {
    broadcast.pending += users.length;
    for (let start = 0; start < users.length; start += RECIPIENTS_PER_DELIVERY) {
      const chunk = users.slice(start, start + RECIPIENTS_PER_DELIVERY);
      jobs.push({
        kind: 'deliver',
        projectId: broadcast.projectId,
        priority: priorityFor(broadcast.userIds.length),
        weight: chunk.length + Math.floor(broadcast.textWeight / FEWER_TEXTS),
        payload: {
          broadcast_id: broadcast.id,
          channel,
          user_ids: chunk,
          attempt: 0,
          first_attempt_ms: known.nowMs,
        },
      });
    }
  }
  return jobs;
}

const selectWithEmail = sql(
  'users_with_email',
  'select id from users where id = any ($1::uuid[]) and email is not null',
);
