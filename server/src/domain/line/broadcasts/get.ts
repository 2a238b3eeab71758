import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { bothDirections, listText } from '../../../db/list-statements.ts';
import { type Cursor, NEWEST, OLDEST } from '../../../lib/cursor.ts';
import type { JsonText } from '../../../lib/json-text.ts';
import { unpackJsonInTurns } from '../../../lib/packed-json.ts';
import { type ListPage, readTextPage } from '../../../lib/page.ts';
import { maskedEmail } from '../../ground/identities/user-names.ts';
import { LONG_FROM_BYTES, lengthOfLongest, partOf, partsOf } from './long-texts.ts';
import {
  type BroadcastFormat,
  type BroadcastRow,
  broadcastJson,
  countRecipients,
} from './stored-broadcast.ts';

/** Returns one of the project's broadcasts as JSON text; undefined if there is none with this id. */
export async function getBroadcast(
  db: Queryable,
  projectId: string,
  id: string,
  format?: BroadcastFormat,
): Promise<JsonText | undefined> {
  const row = await readRow(db, projectId, id);
  return row && broadcastJson(row, format);
}

/** Returns the JSON text of a broadcast of the project as it was when it was accepted. */
export async function readAccepted(db: Queryable, projectId: string, id: string): Promise<JsonText> {
  const row = await readRow(db, projectId, id);
  if (row === undefined) throw new Error(`the broadcast ${id} is of another project`);
  const recipients = row.recipients ? JSON.parse(await unpackJsonInTurns(row.recipients)) : [];
  const total = countRecipients(recipients).named;
  return broadcastJson({
    ...row,
    status: 'enqueued',
    total,
    failures: 0,
    pending: 0,
    errors: null,
    cancelled_at: null,
  });
}

/**
 * Reads a page of the project's broadcasts, or of those that are not due yet, newest first, as JSON texts. A
 * page ends early when its texts have `maxBytes`.
 */
export function listBroadcasts(
  db: Queryable,
  projectId: string,
  page: Cursor,
  { scheduled = false, maxBytes = MAX_PAGE_BYTES }: { scheduled?: boolean; maxBytes?: number } = {},
): Promise<ListPage<JsonText>> {
  const list = scheduled ? LIST_SCHEDULED : LIST;
  const read = ({ direction, id, limit }: Cursor, bytes: number) =>
    readListed(db, list[direction], [projectId, id, limit, bytes]);
  return readTextPage(
    page,
    (cursor) => read(cursor, maxBytes),
    (listed) => textsOf(listed, { maxBytes }),
    async (cursor) => (await read(cursor, 0)).length > 0,
  );
}

/** Counts the project's broadcasts, or only those that wait for their time: 0.1 s for a million. */
export async function countBroadcasts(
  db: Queryable,
  projectId: string,
  { scheduled = false }: { scheduled?: boolean } = {},
): Promise<number> {
  const [row] = await db.query<{ count: number }>(scheduled ? countScheduled : countAll, [projectId]);
  return row?.count ?? 0;
}

/**
 * Reads a page of all broadcasts of the project by its number, newest first, with the number of broadcasts. A
 * page ends early when its texts have 16 MiB. Reads the index up to the page, and counts all of its entries:
 * about 0.1 s for a million broadcasts.
 */
export async function listNumberedBroadcasts(
  db: Queryable,
  projectId: string,
  { page, perPage }: { page: number; perPage: number },
  format: BroadcastFormat,
): Promise<{ total: number; rows: readonly { id: string }[]; texts: JsonText[] }> {
  const total = await countBroadcasts(db, projectId);
  const values = [projectId, perPage, (page - 1) * perPage, MAX_PAGE_BYTES];
  const listed = await readListed(db, selectNumbered, values);
  return { total, rows: listed, texts: await textsOf(listed, { format }) };
}

// A broadcast may have 10 MiB, and a page a hundred of them: more than the memory of the server, and than a
// string can hold.
const MAX_PAGE_BYTES = 16 * 1024 * 1024;

/** A part of a broadcast's row: its long columns come in parts, and the others with the first part. */
interface PartOfRow extends Omit<BroadcastRow, LongColumn> {
  part: number;
  message: Buffer;
  overrides: Buffer | null;
  recipients: Buffer | null;
}

type LongColumn = 'message' | 'overrides' | 'recipients';

async function readRow(db: Queryable, projectId: string, id: string): Promise<BroadcastRow | undefined> {
  const parts = await db.query<PartOfRow>(selectSimple, [id, projectId]);
  if (parts.length === 0) parts.push(...(await db.query<PartOfRow>(selectBroadcast, [id, projectId])));
  return parts.length === 0 ? undefined : joinParts(parts);
}

function joinParts(parts: PartOfRow[]): BroadcastRow {
  parts.sort((a, b) => a.part - b.part);
  const [first] = parts as [PartOfRow];
  const joined = (column: LongColumn) => parts.flatMap((one) => (one[column]?.length ? one[column] : []));
  return {
    ...first,
    message: joined('message'),
    overrides: first.overrides && joined('overrides'),
    recipients: first.recipients && joined('recipients'),
  };
}

/** A broadcast of a page. */
interface ListedBroadcast {
  id: string;
  /** Undefined for one that did not fit the page. */
  row: BroadcastRow | undefined;
}

async function readListed(
  db: Queryable,
  statement: Statement,
  values: readonly unknown[],
): Promise<ListedBroadcast[]> {
  const rows = await db.query<{ id: string } & (PartOfRow | { part: null })>(statement, values);
  return [...Map.groupBy(rows, ({ id }) => id)].map(([id, parts]) => {
    const read = parts.filter((one): one is PartOfRow => one.part !== null);
    return { id, row: read.length === 0 ? undefined : joinParts(read) };
  });
}

/** The texts of as many broadcasts, in their order, as a page can hold, and of at least one. */
async function textsOf(
  listed: readonly ListedBroadcast[],
  { format, maxBytes = MAX_PAGE_BYTES }: { format?: BroadcastFormat; maxBytes?: number },
): Promise<JsonText[]> {
  const texts: JsonText[] = [];
  let characters = 0;
  for (const { row } of listed) {
    if (row === undefined) break;
    // One by one, because a text may be a thousand times as long as its stored form.
    const text = await broadcastJson(row, format);
    characters += text.length;
    if (texts.length > 0 && characters > maxBytes) break;
    texts.push(text);
  }
  return texts;
}

// A page has up to a hundred broadcasts, so that a list has fewer failures of each.
const FAILURES = 1_000;
const FAILURES_IN_LIST = 10;

const OWN_COLUMNS = `category, topic, status, total, send_at, cancelled_at,
    failures + failed_users as failures, pending`;

// The errors are those found before anything was sent, then the deliveries that have failed so far: index
// deliveries_failed (broadcast_id, user_id, channel), read only if there are any, and up to the limit. The
// failure of an erased user has no reason. Users by primary key. Joined as text: a jsonb of a thousand
// messages takes as long as reading them.
const partsWith = (failures: number) => `${OWN_COLUMNS}, case when part = 0 then template end as template,
    case
      when part > 0 then null
      when failed_users = 0 then errors::text
      else '[' || concat_ws(', ', nullif(btrim(errors::jsonb::text, '[]'), ''), (
        select string_agg('{"message": ' || to_json(
          case when failed.number > ${failures}
            then 'more deliveries failed: GET /v2/broadcasts/' || broadcasts.id || '/deliveries?state=failed'
            else failed.channel || ' to user ' || failed.user_id
              || coalesce(
                ' (' || nullif(concat_ws(', ', u.external_id, ${maskedEmail('u.email')}), '') || ')',
                ''
              )
              || ' failed' || coalesce(': ' || failed.reason, '')
          end
        ) || '}', ', ' order by failed.number)
        from (
          select user_id, channel, reason, row_number() over (order by user_id, channel) as number
          from deliveries d
          where d.broadcast_id = broadcasts.id and d.state = 'failed'
          order by user_id, channel
          limit ${failures} + 1
        ) failed
        left join users u on u.id = failed.user_id and u.deleted_at is null
      )) || ']'
    end as errors,
    part, ${partOf('message')}, ${partOf('overrides')}, ${partOf('recipients')}
  from broadcasts, ${partsOf('message', 'overrides', 'recipients')}`;

// Primary key.
const selectBroadcast = sql(
  'select_broadcast',
  `select id, ${partsWith(FAILURES)} where id = $1 and project_id = $2`,
);
// Clients poll for the end of a broadcast. If it is short and has no failed deliveries, this takes a quarter
// less time. Primary key.
const selectSimple = sql(
  'select_simple_broadcast',
  `select id, ${OWN_COLUMNS}, template, errors::text, 0 as part, message, overrides, recipients
  from broadcasts
  where id = $1 and project_id = $2 and failed_users = 0
    and ${lengthOfLongest('message', 'overrides', 'recipients')} <= ${LONG_FROM_BYTES}`,
);

const BROADCASTS = {
  select: `id, octet_length(message) + coalesce(octet_length(overrides), 0)
    + coalesce(octet_length(recipients), 0) as bytes`,
  from: 'broadcasts',
  owner: 'project_id',
  pairs: true,
};

/**
 * A statement that reads the broadcasts of a list in its order, with the rows of as many as have `$4` bytes
 * together, and of at least one unless that is 0. Index broadcasts_of_project (project_id, id), then by
 * primary key, one by one: a join would be planned as a hash of all broadcasts while there are few. The
 * length of a text that is stored apart is known without reading it.
 */
const withRows = (list: string, order: 'desc' | 'asc') => `select listed.id, broadcast.*
  from (
    select id, bytes, sum(bytes) over (order by id ${order}) as through
    from (${list}) page
  ) listed
  left join lateral (
    select ${partsWith(FAILURES_IN_LIST)}
    where broadcasts.id = listed.id and $4 > 0 and (through <= $4 or through = bytes)
    offset 0
  ) broadcast on true
  order by listed.id ${order}`;

const listWithRows = (name: string, list: Parameters<typeof listText>[0]) =>
  bothDirections(name, (beyond, order) => withRows(listText(list)(beyond, order), order));

const LIST = listWithRows('broadcasts', BROADCASTS);
// By pairs like the list.
const selectNumbered = sql(
  'list_numbered_broadcasts',
  withRows(
    `select ${BROADCASTS.select}
    from broadcasts
    where id = any (array(
      select id
      from broadcasts
      where (project_id, id) >= ($1, '${OLDEST}') and (project_id, id) <= ($1, '${NEWEST}')
      order by project_id desc, id desc
      limit $2
      offset $3
    ))`,
    'desc',
  ),
);
const IS_SCHEDULED = "waiting and cancelled_at is null and status <> 'processed'";
// Index broadcasts_scheduled (project_id, id).
const LIST_SCHEDULED = listWithRows('scheduled_broadcasts', { ...BROADCASTS, where: IS_SCHEDULED });
const countScheduled = sql(
  'count_scheduled_broadcasts',
  `select count(*)::int as count from broadcasts where project_id = $1 and ${IS_SCHEDULED}`,
);
// Index broadcasts_of_project (project_id, id).
const countAll = sql(
  'count_broadcasts',
  'select count(*)::int as count from broadcasts where project_id = $1',
);
