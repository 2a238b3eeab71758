import { type Queryable, sql } from '../../../db/client.ts';
import { NEWEST, OLDEST } from '../../../lib/cursor.ts';
import { USER_COLUMNS, type UserRow, userJson } from './get.ts';

const PER_PAGE = 1_000;
// A page ends after the user with whom the attributes of its users exceed this. One user may have 10 MiB.
const PAGE_BYTES = 4 * 1024 * 1024;

export type ExportFormat = 'ndjson' | 'csv';

/**
 * Yields the project's users as text, a page at a time, oldest first. Reads a page when the one before is
 * sent, and holds no transaction: users that are created meanwhile are exported too.
 */
export async function* exportUsers(
  db: Queryable,
  projectId: string,
  format: ExportFormat,
): AsyncGenerator<string> {
  const [head, toText] = format === 'csv' ? [`${COLUMNS.join(',')}\r\n`, csvLine] : ['', jsonLine];
  if (head !== '') yield head;
  for (let id: string | undefined = OLDEST; id !== undefined; ) {
    const rows: UserRow[] = await db.query(selectPage, [projectId, id, PER_PAGE, PAGE_BYTES]);
    if (rows.length > 0) yield rows.map(toText).join('');
    id = rows.at(-1)?.id;
  }
}

// Index users_of_project (project_id, id), by pairs (db/list-statements.ts), and primary key of users.
const selectPage = sql(
  'export_users',
  `select ${USER_COLUMNS}
  from users u
  where u.id = any (array(
    select id
    from (
      select id, sum(bytes) over (order by id) - bytes as bytes_before
      from (
        select id, coalesce(octet_length(custom_attributes::text), 0) as bytes
        from users
        where (project_id, id) > ($1, $2) and (project_id, id) <= ($1, '${NEWEST}') and deleted_at is null
        order by project_id, id
        limit $3
      ) page
    ) sized
    where bytes_before <= $4
  ))
  order by u.id`,
);

function jsonLine(user: UserRow): string {
  return `${userJson(user)}\n`;
}

// The names of the members, as imports accept them.
const COLUMNS = [
  'id',
  'external_id',
  'email',
  'first_name',
  'last_name',
  'locale',
  'phone_numbers',
  'custom_attributes',
  'created_at',
  'updated_at',
  'last_seen_at',
  'last_notified_at',
] as const;

function csvLine(user: UserRow): string {
  const cells = COLUMNS.map((name) => {
    const value = user[name];
    if (value === null) return '';
    if (value instanceof Date) return value.toISOString();
    return quoted(typeof value === 'string' ? value : value.join(';'));
  });
  return `${cells.join(',')}\r\n`;
}

/** Quotes a cell as RFC 4180 requires. */
function quoted(text: string): string {
  return /[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
