import type { Recipient } from '../../../contract/broadcast.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { unpackJson } from '../../../lib/packed-json.ts';
import { type Job, recipientsWeight } from '../../../queue/jobs.ts';
import { SUBSCRIBERS_PER_PAGE } from '../../people/topics/subscribers.ts';
import type { Person } from '../../people/users/plan.ts';
import { countRecipients, readRecipients } from '../broadcasts/stored-broadcast.ts';
import type { FreshBroadcast, FreshRecipients } from '../context/fresh-recipients.ts';

/** A broadcast to be fanned out, or a page of it. */
export interface LoadedBroadcast {
  id: string;
  projectId: string;
  category: string | null;
  topic: string | null;
  /** What inboxes show, packed; only the first page has it at hand. */
  texts: { message: Buffer; inApp: Buffer | null } | undefined;
  /** What its texts add to the weight of its jobs. */
  textWeight: number;
  /** 0 has the named recipients or, if there are none, the first subscribers; others have subscribers. */
  page: number;
  /** The named recipients, and the index of each in the request. */
  people: readonly Person[];
  positions: readonly number[];
  /** It goes to the subscribers of its topic, too: on this page, to those behind the user `after`. */
  subscribers: { onThisPage: boolean; after: string | undefined } | undefined;
}

/** The same with its users. */
export interface AddressedBroadcast extends LoadedBroadcast {
  /** Each once, ascending; with the ids of their notifications in the same order. */
  userIds: readonly string[];
  notificationIds: readonly string[];
  /** Recipients that cannot be used, and what is wrong with recipients. */
  unusable: number;
  errors: readonly string[];
  /** Another page follows: with the subscribers behind this user, or with the first ones. */
  next: { after: string | undefined } | undefined;
}

/** Loads the broadcasts of jobs, in the order of their ids: from memory if just accepted, or the database. */
export async function loadBroadcasts(
  tx: Queryable,
  fresh: FreshRecipients,
  jobs: readonly Job<'fan_out'>[],
): Promise<LoadedBroadcast[]> {
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
): Promise<LoadedBroadcast[]> {
  const weights = new Map(jobs.map((job) => [job.payload.broadcast_id, job.weight]));
  const atHand = fresh.take([...weights.keys()]);
  const stored = await read(
    tx,
    [...weights.keys()].filter((id) => !atHand.has(id)),
  );
  return [...atHand, ...stored].map(([id, { recipients, message, inApp, ...broadcast }]) => {
    const { named, subscribers, ofFirstPage } = countRecipients(recipients);
    return {
      id,
      ...broadcast,
      ...readRecipients(broadcast.projectId, recipients),
      page: 0,
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

/** Further pages, without the texts: a topic may have a thousand pages, and the texts megabytes. */
async function loadPages(tx: Queryable, jobs: readonly Job<'fan_out'>[]): Promise<LoadedBroadcast[]> {
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
      id,
      projectId,
      category,
      topic,
      texts: undefined,
      people: [],
      positions: [],
      textWeight: weight - SUBSCRIBERS_PER_PAGE,
      page: payload.page ?? 0,
      subscribers: { onThisPage: true, after: payload.after },
    };
  });
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
