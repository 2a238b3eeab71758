import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { chunksOf } from '../../../lib/chunks.ts';
import { NEWEST, OLDEST } from '../../../lib/cursor.ts';
import { writeJson } from '../../../lib/exact-numbers.ts';
import type { Context } from '../../context.ts';
import { type EventRow, expand } from '../../ground/events/expand.ts';
import { numbersOf } from '../../ground/events/stored-types.ts';
import type { IdentityKind } from '../../ground/identities/identities.ts';
import { suppressionsOfUser } from '../../ground/suppressions/list.ts';
import { deliveriesOfUser } from '../../line/ledger/of-user.ts';
import { notificationsJson } from '../../line/notifications/json.ts';
import { COLUMNS, type NotificationRow } from '../../line/notifications/row.ts';
import { importFailuresOfUser } from '../../people/imports/of-user.ts';
import type { TokenRow } from '../../people/tokens/list.ts';
import { listSubscriptions, subscriptionOf } from '../../people/topics/list.ts';
import { type UserRow, userJson } from '../../people/users/get.ts';
import { getWindows } from '../../setup/delivery-windows/get.ts';
import { getPreferences } from '../../setup/preferences/get.ts';
import { runsOfUser } from '../../workflows/runs/get.ts';
import { IS_OF_ONE_USER } from '../erasure/redact-kept.ts';

const PER_PAGE = 100;

type ExportContext = Pick<Context, 'contents' | 'categories' | 'integrations'> & {
  db: Queryable;
  brand: string;
};

/**
 * Yields everything that is stored about a user as the text of a JSON object, part by part. Reads a page when
 * the one before is sent, and holds no transaction.
 */
export async function* exportUser(
  context: ExportContext,
  projectId: string,
  user: UserRow,
): AsyncGenerator<string> {
  const { db } = context;
  const owner = { projectId, userId: user.id };
  const [former, preferences, windows] = await Promise.all([
    db.query<FormerIdentity>(selectFormer, [user.id]),
    getPreferences(context, owner),
    getWindows(db, owner),
  ]);
  yield `{"user":${userJson(user)},"former_identities":${JSON.stringify(former)}`;
  yield `,"preferences":${JSON.stringify(preferences)},"delivery_windows":${windows}`;
  yield ',"tokens":[';
  yield* listed(tokens(db, user.id));
  yield '],"subscriptions":[';
  yield* listed(subscriptions(db, user.id));
  yield '],"notifications":[';
  yield* listed(notifications(context, owner));
  yield `],"suppressions":${JSON.stringify(await suppressionsOfUser(db, projectId, user))}`;
  yield ',"import_failures":[';
  yield* listed(importFailuresOfUser(db, { projectId, user, former }));
  yield '],"workflow_runs":[';
  yield* listed(workflowRuns(db, user.id));
  yield '],"events":[';
  yield* listed(events(db, owner));
  yield ']}';
}

/** Yields JSON texts as the items of an array. */
async function* listed(texts: AsyncIterable<string>): AsyncGenerator<string> {
  let separator = '';
  for await (const text of texts) {
    yield `${separator}${text}`;
    separator = ',';
  }
}

interface FormerIdentity {
  kind: IdentityKind;
  value: string;
}

type StoredToken = Omit<TokenRow, 'user_id' | 'sealed_data'> & { channel: string };

async function* tokens(db: Queryable, userId: string): AsyncGenerator<string> {
  for (let id = OLDEST, more = true; more; ) {
    const rows = await db.query<StoredToken>(selectTokens, [userId, id, PER_PAGE]);
    for (const { public_id, ...token } of rows) yield JSON.stringify({ ...token, id: public_id ?? token.id });
    more = rows.length === PER_PAGE;
    id = rows.at(-1)?.id ?? id;
  }
}

async function* subscriptions(db: Queryable, userId: string): AsyncGenerator<string> {
  for (let id = NEWEST, more = true; more; ) {
    const rows = await listSubscriptions(db, userId, { direction: 'older', id, limit: PER_PAGE });
    for (const row of rows) yield JSON.stringify(subscriptionOf(row));
    more = rows.length === PER_PAGE;
    id = rows.at(-1)?.id ?? id;
  }
}

/** Yields the notifications with their deliveries. */
async function* notifications(
  context: ExportContext,
  { projectId, userId }: { projectId: string; userId: string },
): AsyncGenerator<string> {
  const { db, brand } = context;
  for (let id = OLDEST; ; ) {
    const rows = await db.query<NotificationRow>(selectNotifications, [userId, id, PER_PAGE]);
    // Fewer than there are rows, if these fill the memory that a page may take.
    const texts = await notificationsJson(context, rows);
    const shown = rows.slice(0, texts.length);
    const deliveries = await deliveriesOfUser({ db, brand, projectId }, userId, shown);
    for (const [index, text] of texts.entries()) {
      id = rows[index]?.id ?? id;
      yield `${text.slice(0, -1)},"deliveries":${JSON.stringify(deliveries.get(id) ?? [])}}`;
    }
    if (rows.length === 0) return;
  }
}

async function* workflowRuns(db: Queryable, userId: string): AsyncGenerator<string> {
  for (let after = OLDEST; ; ) {
    const runs = await runsOfUser(db, userId, { after, limit: PER_PAGE });
    for (const { text } of runs) yield text;
    if (runs.length < PER_PAGE) return;
    after = runs.at(-1)?.id ?? after;
  }
}

async function* events(
  db: Queryable,
  { projectId, userId }: { projectId: string; userId: string },
): AsyncGenerator<string> {
  const ids = await db.query<{ id: string }>(selectEventIds, [userId, projectId]);
  for (const page of chunksOf(ids, PER_PAGE)) {
    const values = [projectId, uuidArray(page.map(({ id }) => id))];
    for (const row of await db.query<EventRow>(selectEvents, values)) {
      const { from, to } = numbersOf(row, undefined);
      for (const event of expand(row, from, to)) yield writeJson(event);
    }
  }
}

// Primary keys.
const selectFormer = sql(
  'export_former_identities',
  'select kind, value from former_user_keys where user_id = $1 order by kind, value',
);
const selectTokens = sql(
  'export_tokens',
  `select id, public_id, channel, created_at, updated_at, discarded_at
  from tokens
  where user_id = $1 and id > $2
  order by id
  limit $3`,
);
const selectNotifications = sql(
  'export_notifications',
  `select ${COLUMNS}
  from notifications
  where user_id = $1 and id > $2
  order by id
  limit $3`,
);
// Index events_of_users. It has no order, so the ids are read once.
const selectEventIds = sql(
  'export_event_ids',
  `select id
  from events
  where user_ids = array[$1::uuid] and project_id = $2
    and ${IS_OF_ONE_USER}
  order by id`,
);
// Primary key.
const selectEvents = sql(
  'export_events',
  `select id, type, size, broadcast_id, broadcast_ids, user_ids, details
  from events
  where project_id = $1 and id = any ($2::uuid[])
  order by id`,
);
