import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';
import { unpackJson } from '../../../lib/packed-json.ts';
import type { Job, Progress } from '../../../queue/jobs.ts';
import type { ProjectCategories } from '../../setup/categories/of-project.ts';
import { closedUntil, mayAnyClose } from '../../setup/delivery-windows/closed-until.ts';
import type { Project } from '../../setup/projects/cache.ts';
import type { LineContext } from '../context/context.ts';
import type { createPreparation, Prepared, Said } from '../rendering/channel-texts.ts';
import type { LoadedUser } from '../rendering/record.ts';
import type { BroadcastTexts } from '../routing/condition-data.ts';
import { nameOf, type Unwanted, unwantedNow } from '../routing/still-wanted.ts';
import { type Addressed, type Due, findTargets } from './targets.ts';

/** What the jobs of a batch need, loaded together. */
export interface Loaded {
  project: Project;
  broadcasts: ReadonlyMap<string, LoadedBroadcast>;
  users: ReadonlyMap<string, LoadedUser>;
  /** Deliveries that are not wanted, by `nameOf`. */
  unwanted: ReadonlyMap<string, Unwanted>;
  /** Deliveries that have to wait for their window, and until when, by `nameOf`. */
  closed: ReadonlyMap<string, number>;
  /** Where those outside the inbox go that are wanted and have not ended, by `nameOf`. */
  addressed: ReadonlyMap<string, Addressed>;
  /**
   * `<notification id><channel>` of deliveries that have ended: with their final state, and no target left.
   */
  finals: ReadonlySet<string>;
  /**
   * By the same: the attempts and what is left of deliveries that have not, where an attempt was written
   * down.
   */
  begun: ReadonlyMap<string, Begun>;
}

export interface Begun {
  attempts: number;
  sent: boolean;
  progress: Progress | undefined;
}

export interface LoadedBroadcast extends BroadcastTexts {
  overrides: Said['overrides'];
  /** What it says on the channels of the jobs that are outside the inbox. */
  said: ReadonlyMap<string, Prepared>;
  /** Its category is critical: users cannot switch it off. */
  critical: boolean;
}

type Prepare = ReturnType<typeof createPreparation>;

/**
 * Loads it, with those broadcasts that are still there, by as many statements whatever the number of users:
 * one for each thing that is needed.
 */
export async function loadDeliveries(
  context: LineContext,
  prepare: Prepare,
  jobs: readonly Job<'deliver'>[],
): Promise<Loaded> {
  const { db } = context;
  const projectId = jobs[0]?.projectId ?? '';
  const { configured } = await context.categories.of(projectId);
  const [project, integrations, broadcasts, users, { finals, begun }] = await Promise.all([
    context.projects.byId(projectId),
    context.integrations.of(projectId),
    loadBroadcasts(db, prepare, jobs, configured),
    loadUsers(db, jobs),
    loadBegun(db, jobs),
  ]);
  if (project === undefined) throw new Error('a job of a project that does not exist');
  const byId = new Map(broadcasts.map((broadcast) => [broadcast.id, broadcast]));
  const usersById = new Map(users.map((user) => [user.id, user]));
  const unwanted = new Map([...(await unwantedNow(context, jobs, byId)), ...toNobody(jobs, usersById)]);
  const due = dueOf(jobs, { broadcasts: byId, users: usersById, unwanted, finals, begun });
  const closed = await closedOf(context, projectId, { broadcasts: byId, users: usersById }, due);
  for (const name of closed.keys()) due.delete(name);
  const targets = await findTargets(context, integrations, [...due.values()]);
  const addressed = new Map([...due].map(([name, one]) => [name, targets.get(one) as Addressed]));
  return { project, broadcasts: byId, users: usersById, unwanted, closed, addressed, finals, begun };
}

/** Which of the deliveries come at a time at which they may not, and when they may, by `nameOf`. */
async function closedOf(
  { db, categories, clock }: LineContext,
  projectId: string,
  { broadcasts, users }: Pick<Loaded, 'broadcasts' | 'users'>,
  due: ReadonlyMap<string, Due & { broadcastId: string }>,
): Promise<ReadonlyMap<string, number>> {
  const { configured, windows } = await categories.of(projectId);
  if (!mayAnyClose(windows, configured)) return NONE_CLOSED;
  const timed = [...due].map(([name, { broadcastId, channel, user }]) => {
    const category = configured.get(broadcasts.get(broadcastId)?.category ?? '');
    const customAttributes = users.get(user.id)?.custom_attributes ?? null;
    return { name, userId: user.id, channel, category, customAttributes };
  });
  const opening = await closedUntil(db, windows, timed, clock.now());
  return new Map(
    timed.flatMap((one) => {
      const untilMs = opening(one);
      return untilMs === undefined ? [] : [[one.name, untilMs]];
    }),
  );
}

const NONE_CLOSED: ReadonlyMap<string, number> = new Map();

/** The deliveries outside the inbox that are to be made now, by `nameOf`. */
function dueOf(
  jobs: readonly Job<'deliver'>[],
  {
    broadcasts,
    users,
    unwanted,
    finals,
    begun,
  }: Pick<Loaded, 'broadcasts' | 'users' | 'unwanted' | 'finals' | 'begun'>,
): Map<string, Due & { broadcastId: string }> {
  const due = new Map<string, Due & { broadcastId: string }>();
  for (const { projectId, payload } of jobs) {
    const { broadcast_id: broadcastId, channel, user_ids, progress } = payload;
    if (channel === 'in_app') continue;
    const broadcast = broadcasts.get(broadcastId);
    for (const userId of user_ids) {
      const name = nameOf(broadcastId, channel, userId);
      const user = users.get(userId);
      const key = finals.size + begun.size > 0 ? notificationId(broadcastId, userId) + channel : '';
      const ended = finals.has(key);
      if (user === undefined || broadcast === undefined || ended || unwanted.has(name)) continue;
      const { critical } = broadcast;
      due.set(name, {
        projectId,
        broadcastId,
        channel,
        user,
        critical,
        progress: begun.get(key)?.progress ?? progress?.[userId],
      });
    }
  }
  return due;
}

/** The users who are there: one may have been deleted since the fan-out. */
async function loadUsers(db: Queryable, jobs: readonly Job<'deliver'>[]): Promise<LoadedUser[]> {
  const ids = new Set(jobs.flatMap((job) => job.payload.user_ids));
  return db.query<LoadedUser>(selectUsers, [uuidArray([...ids])]);
}

/** The deliveries to users who are not there. */
function toNobody(
  jobs: readonly Job<'deliver'>[],
  users: ReadonlyMap<string, LoadedUser>,
): [name: string, why: Unwanted][] {
  return jobs.flatMap(({ payload: { broadcast_id: broadcastId, channel, user_ids } }) =>
    user_ids
      .filter((userId) => !users.has(userId))
      .map((userId): [string, Unwanted] => [nameOf(broadcastId, channel, userId), USER_DELETED]),
  );
}

const USER_DELETED: Unwanted = { code: 'user_deleted', reason: 'the user was deleted' };

async function loadBroadcasts(
  db: Queryable,
  prepare: Prepare,
  jobs: readonly Job<'deliver'>[],
  configured: ProjectCategories['configured'],
): Promise<LoadedBroadcast[]> {
  const channelsOf = new Map<string, Set<string>>();
  for (const { payload } of jobs) {
    const channels = channelsOf.get(payload.broadcast_id) ?? new Set();
    channelsOf.set(payload.broadcast_id, channels);
    if (payload.channel !== 'in_app') channels.add(payload.channel);
  }
  const rows = await db.query<{
    id: string;
    category: string | null;
    topic: string | null;
    message: Buffer;
    overrides: Buffer | null;
  }>(selectBroadcasts, [[...channelsOf.keys()]]);
  return rows.map(({ id, category, topic, ...row }) => {
    const message = JSON.parse(unpackJson(row.message)) as BroadcastTexts['message'];
    const overrides = row.overrides ? (JSON.parse(unpackJson(row.overrides)) as Said['overrides']) : {};
    const channels = [...(channelsOf.get(id) ?? [])];
    const said = new Map(
      channels.map((channel) => [channel, prepare({ id, message, overrides }, channel)] as const),
    );
    const critical = configured.get(category ?? '')?.critical === true;
    return { id, category, topic, message, overrides, said, critical };
  });
}

/**
 * Only a job that was begun before can have results; or one that comes back, of an attempt which a worker
 * without a lease made, too.
 */
async function loadBegun(
  db: Queryable,
  jobs: readonly Job<'deliver'>[],
): Promise<Pick<Loaded, 'finals' | 'begun'>> {
  const back = jobs.filter(({ attempt, payload }) => attempt > 1 || payload.back !== undefined);
  if (back.length === 0) return { finals: new Set(), begun: new Map() };
  const pairs = back.flatMap(({ payload }) => payload.user_ids.map((userId) => ({ userId, payload })));
  const rows = await db.query<{
    notification_id: string;
    channel: string;
    ended: boolean;
    sent: boolean;
    attempts: number;
    progress: string | null;
  }>(selectBegun, [
    pairs.map(({ userId }) => userId),
    pairs.map(({ userId, payload }) => notificationId(payload.broadcast_id, userId)),
    pairs.map(({ payload }) => payload.channel),
    pairs.map(({ payload }) => payload.replay ?? 0),
  ]);
  const keyOf = (row: { notification_id: string; channel: string }) => row.notification_id + row.channel;
  return {
    finals: new Set(rows.filter(({ ended }) => ended).map(keyOf)),
    begun: new Map(
      rows
        .filter(({ ended }) => !ended)
        .map((row) => {
          const { attempts, sent, progress } = row;
          const left = progress === null ? undefined : (JSON.parse(progress) as Progress);
          return [keyOf(row), { attempts, sent, progress: left }];
        }),
    ),
  };
}

// All by primary key.
const selectBroadcasts = sql(
  'deliver_broadcasts',
  'select id, category, topic, message, overrides from broadcasts where id = any ($1::uuid[])',
);
const selectUsers = sql(
  'deliver_users',
  `select id, external_id, email, first_name, last_name, custom_attributes, phone_numbers, created_at, updated_at, last_seen_at
  from users
  where id = any ($1::uuid[]) and deleted_at is null`,
);
const selectBegun = sql(
  'deliver_begun',
  `select d.notification_id, d.channel, d.attempts, d.progress, d.state = 'sent' as sent,
    d.replays > wanted.replay or (d.state <> 'retrying' and d.progress is null) as ended
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[]) as wanted (user_id, notification_id, channel, replay)
  join deliveries d using (user_id, notification_id, channel)`,
);
