import type { Queryable } from '../../../db/client.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { type UserRow, userJson } from './get.ts';
import { listUsers } from './list.ts';

const PER_PAGE = 1_000;
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
  for (let id = OLDEST, isLast = false; !isLast; ) {
    const rows = await listUsers(db, projectId, undefined, { direction: 'newer', id, limit: PER_PAGE });
    isLast = rows.length < PER_PAGE;
    id = rows.at(-1)?.id ?? id;
    if (rows.length > 0) yield rows.map(toText).join('');
  }
}

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
