import type { Recipient } from '../../../contract/broadcast.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { unpackJson } from '../../../lib/packed-json.ts';
import { type Job, recipientsWeight } from '../../../queue/jobs.ts';
import { SUBSCRIBERS_PER_PAGE } from '../../people/topics/subscribers.ts';
import type { Person } from '../../people/users/plan.ts';
import { countRecipients, readRecipients } from '../broadcasts/stored-broadcast.ts';
import type { FreshBroadcast, FreshRecipients } from '../context/fresh-recipients.ts';
import type { StoredChannelPlan } from '../ledger/page-plan.ts';

/** A broadcast on its way through the fan-out, or a page of it: each step adds what it found out. */
export interface Broadcast {
  id: string;
  projectId: string;
  category: string | null;
  topic: string | null;
  /** What is said; only the first page has it at hand. */
  texts: { message: Buffer; inApp: Buffer | null } | undefined;
  /** What its texts add to the weight of its jobs. */
  textWeight: number;
  /** 0 is for who is named or, where nobody is, for the first subscribers; the others are for subscribers. */
  page: number;
  people: readonly Person[];
  /** Where each of `people` stands in the request. */
  positions: readonly number[];
  /**
   * It goes to the subscribers of its topic, too: those of this page, if it is theirs, are behind the user
   * `after`.
   */
  subscribers: { onThisPage: boolean; after: string | undefined } | undefined;
  /** Another page follows, of the subscribers behind this user, or of the first ones. */
  next: { after: string | undefined } | undefined;
  unusable: number;
  errors: string[];
  /** The users addressed, each once, ascending; and their notifications' ids in the same order. */
  userIds: string[];
  notificationIds: string[];
  /** Deliveries that wait for an outcome: those outside the inbox, and those that the inbox shows later. */
  pending: number;
  /**
   * What has to happen before it is processed: a first attempt of each that is due at once; and one for all
   * the pages that follow.
   */
  awaited: number;
  /** The users whose inbox does not show it, or not yet. */
  heldBack: Set<string>;
  /** What is decided for these users on each channel. */
  plan: StoredChannelPlan[];
}

/**
 * The jobs' broadcasts, in the order of their ids: as they were accepted a moment ago, or else from the
 * database.
 */
export async function loadBroadcasts(
  tx: Queryable,
  fresh: FreshRecipients,
  jobs: readonly Job<'fan_out'>[],
): Promise<Broadcast[]> {
  const later = jobs.filter(({ payload }) => payload.page !== undefined);
  const first = later.length === 0 ? jobs : jobs.filter(({ payload }) => payload.page === undefined);
  const broadcasts = await loadFirstPages(tx, fresh, first);
  if (later.length > 0) broadcasts.push(...(await loadPages(tx, later)));
  return broadcasts.sort((a, b) => (a.id < b.id ? -1 : 1));
}

async function loadFirstPages(
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
  return [...atHand, ...stored].map(([id, { recipients, message, inApp, ...broadcast }]) => {
    const { named, subscribers, ofFirstPage } = countRecipients(recipients);
    return {
      ...newBroadcast(),
      ...readRecipients(broadcast.projectId, recipients),
      id,
      ...broadcast,
      texts: { message, inApp },
      textWeight: (weights.get(id) ?? 0) - recipientsWeight(ofFirstPage),
      subscribers: subscribers ? { onThisPage: named === 0, after: undefined } : undefined,
    };
  });
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

/**
 * Broadcasts whose first page is written. Their texts may have megabytes, and a topic a thousand pages: they
 * are not read for each.
 */
async function loadPages(tx: Queryable, jobs: readonly Job<'fan_out'>[]): Promise<Broadcast[]> {
  const pages = new Map(jobs.map((job) => [job.payload.broadcast_id, job]));
  const rows = await tx.query<{
    id: string;
    project_id: string;
    category: string | null;
    topic: string | null;
  }>(selectOfPages, [[...pages.keys()]]);
  return rows.map(({ id, project_id: projectId, category, topic }) => {
    const { payload, weight } = pages.get(id) as Job<'fan_out'>;
    return {
      ...newBroadcast(),
      id,
      projectId,
      category,
      topic,
      textWeight: weight - SUBSCRIBERS_PER_PAGE,
      page: payload.page ?? 0,
      subscribers: { onThisPage: true, after: payload.after },
    };
  });
}

/** A broadcast of which nothing is known yet. */
function newBroadcast() {
  return {
    texts: undefined,
    page: 0,
    next: undefined,
    people: [],
    positions: [],
    unusable: 0,
    errors: [],
    userIds: [],
    notificationIds: [],
    pending: 0,
    awaited: 0,
    heldBack: new Set<string>(),
    plan: [],
  };
}

// Primary key, both.
const selectBroadcasts = sql(
  'fan_out_load',
  `select id, project_id, category, topic, message, in_app, recipients
  from broadcasts
  where id = any ($1::uuid[])`,
);
const selectOfPages = sql(
  'fan_out_load_pages',
  'select id, project_id, category, topic from broadcasts where id = any ($1::uuid[])',
);
