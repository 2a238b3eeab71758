import { uuidArray } from '../../../db/arrays.ts';
import { isOfOneItem, type Queryable, sql } from '../../../db/client.ts';
import { Batcher } from '../../../lib/batcher.ts';
import type { Clock } from '../../../lib/clock.ts';
import { firstIdAt } from '../../../lib/ids.ts';
import type { Sealer } from '../../../lib/seal.ts';
import type { BroadcastContents } from '../../line/notifications/contents.ts';
import { countsOf } from '../../line/notifications/count-unread.ts';
import { rowJson } from '../../line/notifications/json.ts';
import { newestOf } from '../../line/notifications/list.ts';
import { COLUMNS, HIDDEN, type NotificationRow } from '../../line/notifications/row.ts';
import { loadTexts } from '../../line/notifications/texts.ts';
import { inboxConfigsOf } from '../../people/installations/inbox.ts';
import { type PreferenceContext, preferencesOf } from '../../setup/preferences/get.ts';
import { MAX_APPEARANCE_CHARACTERS } from './frame.ts';
import { MAX_FAN_OUT_MS, MAX_MISSED, type Missed, toState } from './missed.ts';
import { RESUME_MARGIN_MS } from './resume-cursor.ts';

export interface SnapshotDeps extends PreferenceContext {
  db: Queryable;
  clock: Clock;
  sealer: Sealer;
  contents: BroadcastContents;
}

export interface SnapshotRequest {
  projectId: string;
  userId: string;
  /** How many notifications to list; 0 leaves out the preferences as well. */
  listed: number;
  /** The page for the preferences. */
  preferencesUrl: () => string;
}

/** The state of an inbox as JSON, and what a stream has delivered with it. */
export interface Snapshot {
  json: string;
  known: Missed;
}

// Users of one query, each with a page of notifications. Their texts share a query, too.
const MAX_USERS = 25;
// A stream writes it at once. An inbox with more lists its notifications by itself.
const MAX_LIST_CHARACTERS = 256 * 1024;

/** Returns a function that reads the state of an inbox. Concurrent calls share their statements. */
export function createSnapshotReader(deps: SnapshotDeps): (request: SnapshotRequest) => Promise<Snapshot> {
  const batcher = new Batcher<SnapshotRequest, Snapshot>({
    run: (requests) => readSnapshots(deps, requests),
    concurrency: 2,
    maxItems: MAX_USERS,
    splitAfter: isOfOneItem,
  });
  return (request) => batcher.add(request);
}

/** Returns a function that reads a snapshot with nothing of the user: the time and the config. */
export function createConfigReader(
  deps: Pick<SnapshotDeps, 'db' | 'clock' | 'sealer'>,
): (user: { projectId: string; userId: string }) => Promise<string> {
  const batcher = new Batcher<{ projectId: string; userId: string }, string>({
    run: async (users) => {
      const configOf = await byProject(users, (owners) => inboxConfigsOf(deps, owners));
      return users.map((user) => `{${[nowMember(deps), ...configMember(configOf(user))].join(',')}}`);
    },
    concurrency: 2,
    maxItems: 100,
    splitAfter: isOfOneItem,
  });
  return (user) => batcher.add(user);
}

async function readSnapshots(deps: SnapshotDeps, requests: readonly SnapshotRequest[]): Promise<Snapshot[]> {
  const listing = requests.filter(({ listed }) => listed > 0);
  const [rows, configOf, preferencesFor] = await Promise.all([
    readRows(deps, requests),
    byProject(requests, (owners) => inboxConfigsOf(deps, owners)),
    byProject(listing, (owners) => preferencesOf(deps, owners)),
  ]);
  const shown = rows.flatMap(({ listed }) => listed);
  const [texts, contents] = await Promise.all([
    loadTexts(deps.db, shown),
    deps.contents.load(shown.map((row) => row.broadcast_id)),
  ]);
  return requests.map((request, index) => {
    const { counts, listed, known } = rows[index] ?? NOTHING;
    const members = [
      nowMember(deps),
      `"counts":${JSON.stringify(counts)}`,
      ...configMember(configOf(request)),
    ];
    const list =
      request.listed > 0
        ? listJson(listed, request.listed, (row) => texts.get(row.id) ?? contents.get(row.broadcast_id))
        : undefined;
    if (list !== undefined) {
      const preferences = { ...preferencesFor(request), preferences_url: request.preferencesUrl() };
      members.push(list, `"preferences":${JSON.stringify(preferences)}`);
    }
    return { json: `{${members.join(',')}}`, known };
  });
}

/** The clock of a browser may be wrong. */
const nowMember = ({ clock }: Pick<SnapshotDeps, 'clock'>) =>
  `"now":"${new Date(clock.now()).toISOString()}"`;

/** None if it is long: the inbox then reads it by itself. */
function configMember(config: object): string[] {
  const json = JSON.stringify(config);
  return json.length > MAX_APPEARANCE_CHARACTERS ? [] : [`"config":${json}`];
}

/** Returns undefined if a content is long: the inbox then lists its notifications by itself. */
function listJson(
  rows: readonly NotificationRow[],
  listed: number,
  contentOf: (row: NotificationRow) => string | undefined,
): string | undefined {
  const texts: string[] = [];
  let characters = 0;
  for (const row of rows.slice(0, listed)) {
    const content = contentOf(row);
    if (!content) return undefined;
    const text = rowJson(row, content);
    characters += text.length;
    if (characters > MAX_LIST_CHARACTERS) return undefined;
    texts.push(text);
  }
  return `"notifications":[${texts.join(',')}],"has_more":${rows.length > listed}`;
}

/** Reads something of users, once for each of their projects. */
async function byProject<Value>(
  users: readonly { projectId: string; userId: string }[],
  read: (users: { projectId: string; userIds: string[] }) => Promise<(userId: string) => Value>,
): Promise<(user: { projectId: string; userId: string }) => Value> {
  const found = new Map<string, (userId: string) => Value>();
  const projects = Map.groupBy(users, ({ projectId }) => projectId);
  await Promise.all(
    [...projects].map(async ([projectId, own]) => {
      found.set(projectId, await read({ projectId, userIds: own.map(({ userId }) => userId) }));
    }),
  );
  return ({ projectId, userId }) => {
    const of = found.get(projectId);
    if (of === undefined) throw new Error(`nothing was read for project ${projectId}`);
    return of(userId);
  };
}

interface UserRows {
  counts: { unread: number; unseen: number };
  /** One more than requested, if there are more. */
  listed: NotificationRow[];
  known: Missed;
}

const NOTHING: UserRows = {
  counts: { unread: 0, unseen: 0 },
  listed: [],
  known: { nowMs: 0, states: [], tooMany: false },
};

async function readRows(
  { db, clock }: SnapshotDeps,
  requests: readonly SnapshotRequest[],
): Promise<UserRows[]> {
  const rows = await db.query<Row>(selectSnapshot, [
    uuidArray(requests.map(({ userId }) => userId)),
    requests.map(({ listed }) => (listed > 0 ? listed + 1 : 0)),
    firstIdAt(clock.now() - RESUME_MARGIN_MS - MAX_FAN_OUT_MS),
    MAX_MISSED + 1,
    RESUME_MARGIN_MS,
  ]);
  const byRequest = Map.groupBy(rows, ({ request }) => request);
  return requests.map((_, index) => {
    const own = byRequest.get(index + 1) ?? [];
    const [first] = own;
    if (first === undefined) return NOTHING;
    const { unread, unseen, now } = first;
    const isListed = (row: Row): row is Listed => row.place !== null;
    const listed = own.filter(isListed).sort((a, b) => (a.place < b.place ? 1 : -1));
    const states = own.filter(({ id, place }) => id !== null && place === null).map(toState);
    const known = { nowMs: now.getTime(), states, tooMany: states.length > MAX_MISSED };
    return { counts: { unread, unseen }, listed, known };
  });
}

type Row = Omit<NotificationRow, 'id'> & {
  request: number;
  now: Date;
  unread: number;
  unseen: number;
  /** Null if the user has nothing to list and nothing new. */
  id: string | null;
  /** Null for a notification that is new or has changed. */
  place: string | null;
};
type Listed = Row & { id: string; place: string };

// For each user: the counts, the top of the list, and what is new or has changed as in missed.ts. One
// statement, so that the stream continues from the same moment. The list reads inbox_unread and inbox_read,
// the others the primary key and notifications_changed.
const selectSnapshot = sql(
  'select_inbox_snapshot',
  `select r.request::int as request, statement_timestamp() as now, r.user_id, c.unread, c.unseen, n.*
  from unnest($1::uuid[], $2::integer[]) with ordinality as r (user_id, listed, request)
  cross join lateral (
    ${countsOf('r.user_id')}
  ) c
  left join lateral (
    (
      select *
      from (
        ${newestOf('r.user_id', 'r.listed')}
      ) shown
      order by place desc
      limit r.listed
    )
    union all
    (
      select ${COLUMNS}, null::uuid as place
      from notifications
      where user_id = r.user_id
        and id >= $3::uuid
        and sent_at >= statement_timestamp() - $5 * interval '1 millisecond'
        and discarded_at is distinct from ${HIDDEN}
      order by id desc
      limit $4
    )
    union all
    (
      select ${COLUMNS}, null::uuid as place
      from notifications
      where user_id = r.user_id
        and updated_at >= statement_timestamp() - $5 * interval '1 millisecond'
      order by updated_at desc
      limit $4
    )
  ) n on true`,
);
