import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { readJson } from '../../../lib/exact-numbers.ts';
import { notificationId } from '../../../lib/ids.ts';
import { unpackJsonInTurns } from '../../../lib/packed-json.ts';
import type { Job, Progress } from '../../../queue/jobs.ts';
import type { ProjectCategories } from '../../setup/categories/cache.ts';
import { LONG_FROM_BYTES, readLongTexts } from '../broadcasts/long-texts.ts';
import type { LineContext } from '../context/context.ts';
import { type LoadedBroadcast, type LoadedUser, prepareTexts } from '../rendering/message.ts';
import { openTemplates } from '../rendering/templates.ts';
import type { Batch, Delivery } from './delivery.ts';

/**
 * Loads the deliveries of jobs of one project, by one statement for each table, whatever the number of users.
 * Leaves out deliveries that have ended, and those of broadcasts that were deleted.
 */
export async function load(context: LineContext, jobs: readonly Job<'deliver'>[]): Promise<Batch> {
  const { db } = context;
  const projectId = jobs[0]?.projectId ?? '';
  const categories = await context.categories.of(projectId);
  const [project, integrations, broadcasts, users, attempted] = await Promise.all([
    context.projects.byId(projectId),
    context.integrations.of(projectId),
    loadBroadcasts(db, { projectId, jobs }, categories.configured),
    loadUsers(db, jobs),
    loadAttempted(db, jobs),
  ]);
  if (project === undefined) throw new Error('a job of a project that does not exist');
  const deliveries = jobs.flatMap((job) => deliveriesOf(job, { broadcasts, users, attempted }));
  return { project, categories, integrations, deliveries };
}

function deliveriesOf(
  job: Job<'deliver'>,
  rows: {
    broadcasts: ReadonlyMap<string, LoadedBroadcast>;
    users: ReadonlyMap<string, LoadedUser>;
    attempted: ReadonlyMap<string, AttemptedRow>;
  },
): Delivery[] {
  const { projectId, payload } = job;
  const { broadcast_id: broadcastId, channel, user_ids: userIds } = payload;
  const broadcast = rows.broadcasts.get(broadcastId);
  if (broadcast === undefined) return [];
  return userIds.flatMap((userId): Delivery[] => {
    const id = notificationId(broadcastId, userId);
    const row = rows.attempted.size === 0 ? undefined : rows.attempted.get(id + channel);
    if (row?.ended) return [];
    const stored = row && (row.progress === null ? undefined : (JSON.parse(row.progress) as Progress));
    return [
      {
        job,
        projectId,
        broadcastId,
        channel,
        userId,
        notificationId: id,
        broadcast,
        user: rows.users.get(userId),
        // An attempt is recorded even if its job did not come to its end.
        attempts: Math.max(payload.attempt, row?.attempts ?? 0),
        dueAtMs: payload.first_attempt_ms,
        expiresAtMs: payload.first_attempt_ms + timeToLiveMs(channel),
        progress: dueOf(stored ?? payload.progress?.[userId], payload),
        wasSent: row?.sent === true,
      },
    ];
  });
}

/** The progress of a delivery; if its job was woken, with all targets due. */
function dueOf(
  progress: Progress | undefined,
  { woken }: Pick<Job<'deliver'>['payload'], 'woken'>,
): Progress | undefined {
  if (progress === undefined || !woken) return progress;
  return { ...progress, left: Object.fromEntries(Object.keys(progress.left).map((id) => [id, 0])) };
}

const HOUR_MS = 3_600_000;

/** How long after it was due a delivery on a channel is tried. After that it has expired. */
function timeToLiveMs(channel: string): number {
  // A text message has a code or is urgent: on the next day it is of no use.
  return channel === 'sms' ? 4 * HOUR_MS : 24 * HOUR_MS;
}

async function loadUsers(
  db: Queryable,
  jobs: readonly Job<'deliver'>[],
): Promise<ReadonlyMap<string, LoadedUser>> {
  const ids = new Set(jobs.flatMap((job) => job.payload.user_ids));
  const rows = await db.query<LoadedUser>(selectUsers, [uuidArray([...ids])]);
  return new Map(rows.map((user) => [user.id, user]));
}

async function loadBroadcasts(
  db: Queryable,
  { projectId, jobs }: { projectId: string; jobs: readonly Job<'deliver'>[] },
  configured: ProjectCategories['configured'],
): Promise<ReadonlyMap<string, LoadedBroadcast>> {
  const channelsOf = new Map<string, Set<string>>();
  for (const { payload } of jobs) {
    const channels = channelsOf.get(payload.broadcast_id) ?? new Set();
    channelsOf.set(payload.broadcast_id, channels);
    if (payload.channel !== 'in_app') channels.add(payload.channel);
  }
  const rows = await db.query<BroadcastRow>(selectBroadcasts, [[...channelsOf.keys()]]);
  const hasTemplates = rows.some(({ template }) => template !== null);
  const templates = hasTemplates
    ? await openTemplates(
        db,
        rows.map(({ id, template }) => ({ id, projectId, template })),
      )
    : undefined;
  const loaded = new Map<string, LoadedBroadcast>();
  for (const row of rows) {
    const { id, category, topic, cancelled } = row;
    const content = await contentOf(db, row);
    if (content === undefined) continue;
    const template = templates?.get(id);
    const channels = template === undefined ? [...(channelsOf.get(id) ?? [])] : [];
    const texts = new Map(channels.map((channel) => [channel, prepareTexts({ id, ...content }, channel)]));
    const critical = configured.get(category ?? '')?.critical === true;
    loaded.set(id, { id, category, topic, ...content, texts, template, critical, cancelled });
  }
  return loaded;
}

interface BroadcastRow {
  id: string;
  category: string | null;
  topic: string | null;
  /** Null if the texts are long. */
  message: Buffer | null;
  overrides: Buffer | null;
  template: Buffer | null;
  cancelled: boolean;
}

type Content = Pick<LoadedBroadcast, 'message' | 'overrides'>;

/** The content of a broadcast; undefined if it was deleted since the row was read. */
async function contentOf(db: Queryable, row: BroadcastRow): Promise<Content | undefined> {
  const texts =
    row.message === null
      ? await readLongTexts(db, row.id)
      : { message: [row.message], overrides: row.overrides && [row.overrides] };
  if (texts === undefined) return undefined;
  const { message, overrides } = texts;
  return {
    message: readJson(await unpackJsonInTurns(message)) as Content['message'],
    overrides: overrides ? (readJson(await unpackJsonInTurns(overrides)) as Content['overrides']) : {},
  };
}

interface AttemptedRow {
  notification_id: string;
  channel: string;
  ended: boolean;
  sent: boolean;
  attempts: number;
  progress: string | null;
}

/**
 * Loads the deliveries whose attempts were recorded, by notification's id and channel. Only a job that was
 * claimed before can have some, or a job that came back, after an attempt by a worker that lost its lease.
 */
async function loadAttempted(
  db: Queryable,
  jobs: readonly Job<'deliver'>[],
): Promise<ReadonlyMap<string, AttemptedRow>> {
  const back = jobs.filter(({ attempt, payload }) => attempt > 1 || payload.back !== undefined);
  if (back.length === 0) return new Map();
  const pairs = back.flatMap(({ payload }) => payload.user_ids.map((userId) => ({ userId, payload })));
  const rows = await db.query<AttemptedRow>(selectAttempted, [
    pairs.map(({ userId }) => userId),
    pairs.map(({ userId, payload }) => notificationId(payload.broadcast_id, userId)),
    pairs.map(({ payload }) => payload.channel),
    pairs.map(({ payload }) => payload.replay ?? 0),
  ]);
  return new Map(rows.map((row) => [row.notification_id + row.channel, row]));
}

const isShort = `octet_length(message) + coalesce(octet_length(overrides), 0) <= ${LONG_FROM_BYTES}`;
// All by primary key.
const selectBroadcasts = sql(
  'deliver_broadcasts',
  `select id, category, topic, case when ${isShort} then message end as message,
    case when ${isShort} then overrides end as overrides, template, cancelled_at is not null as cancelled
  from broadcasts
  where id = any ($1::uuid[])`,
);
const selectUsers = sql(
  'deliver_users',
  `select id, external_id, email, first_name, last_name, locale, custom_attributes, phone_numbers,
    created_at, updated_at, last_seen_at
  from users
  where id = any ($1::uuid[]) and deleted_at is null`,
);
const selectAttempted = sql(
  'deliver_begun',
  `select d.notification_id, d.channel, d.attempts, d.progress, d.state = 'sent' as sent,
    d.replays > wanted.replay or (d.state <> 'retrying' and d.progress is null) as ended
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[])
    as wanted (user_id, notification_id, channel, replay)
  join deliveries d using (user_id, notification_id, channel)`,
);
