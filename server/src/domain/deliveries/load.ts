import type { NewBroadcast } from '../../contract/broadcast.ts';
import { uuidArray } from '../../db/arrays.ts';
import { type Queryable, sql } from '../../db/client.ts';
import { notificationId } from '../../lib/ids.ts';
import { unpackJson } from '../../lib/packed-json.ts';
import type { Job } from '../../queue/jobs.ts';
import type { Context } from '../context.ts';
import type { OpenedIntegration } from '../integrations/of-project.ts';
import type { Project } from '../projects/cache.ts';
import type { BroadcastTexts } from './condition-data.ts';
import { type PreparedEmail, prepareEmail } from './render/email.ts';
import { nameOf, type Unwanted, unwantedNow } from './still-wanted.ts';

/** What the jobs of a batch need, loaded together. */
export interface Loaded {
  project: Project;
  integration: OpenedIntegration | undefined;
  broadcasts: ReadonlyMap<string, LoadedBroadcast>;
  users: ReadonlyMap<string, LoadedUser>;
  /** Deliveries that are not wanted, by `nameOf`. */
  unwanted: ReadonlyMap<string, Unwanted>;
  /** `<notification id><channel>` of deliveries that have their final state. */
  finals: ReadonlySet<string>;
}

export interface LoadedBroadcast extends BroadcastTexts {
  overrides: Overrides;
  /** Where one of the jobs is for e-mail. */
  email: { texts: ChannelTexts; prepared: PreparedEmail } | undefined;
}

/** What a broadcast says on one channel. */
export interface ChannelTexts {
  title: string;
  content: string | null;
  actionUrl: string | null;
}

type Overrides = NonNullable<NewBroadcast['overrides']>;

export interface LoadedUser {
  id: string;
  external_id: string | null;
  email: string | null;
  first_name: string | null;
  last_name: string | null;
  /** JSON text of an object. */
  custom_attributes: string | null;
  phone_numbers: string[];
  created_at: Date;
  updated_at: Date;
  last_seen_at: Date | null;
}

/** Loads it, in two rounds of statements whatever the number of users, three where there are conditions. */
export async function loadDeliveries(context: Context, jobs: readonly Job<'deliver'>[]): Promise<Loaded> {
  const { db } = context;
  const projectId = jobs[0]?.projectId ?? '';
  const [project, integrations, broadcasts, users, finals] = await Promise.all([
    context.projects.byId(projectId),
    context.integrations.of(projectId),
    loadBroadcasts(db, jobs),
    loadUsers(db, jobs),
    loadFinals(db, jobs),
  ]);
  if (project === undefined) throw new Error('a job of a project that does not exist');
  const byId = new Map(broadcasts.map((broadcast) => [broadcast.id, broadcast]));
  const usersById = new Map(users.map((user) => [user.id, user]));
  return {
    project,
    integration: integrations.find((integration) => integration.channel === 'email'),
    broadcasts: byId,
    users: usersById,
    unwanted: new Map([...(await unwantedNow(context, jobs, byId)), ...toNobody(jobs, usersById)]),
    finals,
  };
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

async function loadBroadcasts(db: Queryable, jobs: readonly Job<'deliver'>[]): Promise<LoadedBroadcast[]> {
  const ids = [...new Set(jobs.map((job) => job.payload.broadcast_id))];
  const mailed = new Set(
    jobs.filter((job) => job.payload.channel === 'email').map((job) => job.payload.broadcast_id),
  );
  const rows = await db.query<{
    id: string;
    category: string | null;
    topic: string | null;
    message: Buffer;
    overrides: Buffer | null;
  }>(selectBroadcasts, [ids]);
  return rows.map(({ id, category, topic, ...row }) => {
    const message = JSON.parse(unpackJson(row.message)) as BroadcastTexts['message'];
    const overrides = row.overrides ? (JSON.parse(unpackJson(row.overrides)) as Overrides) : {};
    const email = mailed.has(id) ? emailOf(message, overrides) : undefined;
    return { id, category, topic, message, overrides, email };
  });
}

function emailOf(message: BroadcastTexts['message'], { channels }: Overrides): LoadedBroadcast['email'] {
  const said = channels?.email ?? {};
  const texts = {
    title: said.title ?? message.title,
    content: said.content ?? message.content,
    // An override's null takes the link away; an absent one leaves the broadcast's.
    actionUrl: said.action_url === undefined ? message.action_url : said.action_url,
  };
  return { texts, prepared: prepareEmail(texts) };
}

/** Only a job that was begun before can have results; or one that repeats an attempt which a worker without a lease made, too. */
async function loadFinals(db: Queryable, jobs: readonly Job<'deliver'>[]): Promise<Set<string>> {
  const begun = jobs.filter((job) => job.attempt > 1 || job.payload.attempt > 0);
  if (begun.length === 0) return new Set();
  const pairs = begun.flatMap(({ payload }) => payload.user_ids.map((userId) => ({ userId, payload })));
  const rows = await db.query<{ notification_id: string; channel: string }>(selectFinals, [
    pairs.map(({ userId }) => userId),
    pairs.map(({ userId, payload }) => notificationId(payload.broadcast_id, userId)),
    pairs.map(({ payload }) => payload.channel),
  ]);
  return new Set(rows.map((row) => row.notification_id + row.channel));
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
const selectFinals = sql(
  'deliver_finals',
  `select d.notification_id, d.channel
  from unnest($1::uuid[], $2::uuid[], $3::text[]) as wanted (user_id, notification_id, channel)
  join deliveries d using (user_id, notification_id, channel)
  where d.state <> 'retrying'`,
);
