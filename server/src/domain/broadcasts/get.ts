import { type Queryable, sql } from '../../db/client.ts';
import type { Cursor } from '../../lib/cursor.ts';
import { type BroadcastRow, broadcastJson } from './wire.ts';

/** One of the project's broadcasts as JSON text; undefined when there is none with this id. */
export async function getBroadcast(
  db: Queryable,
  projectId: string,
  id: string,
): Promise<string | undefined> {
  const [row] = await db.query<BroadcastRow>(selectBroadcast, [id, projectId]);
  return row && broadcastJson(row);
}

/** The project's broadcasts beyond a cursor, with their ids. */
export async function listBroadcasts(
  db: Queryable,
  projectId: string,
  cursor: Cursor,
): Promise<{ id: string; json: string }[]> {
  const statement = cursor.direction === 'older' ? selectOlder : selectNewer;
  const rows = await db.query<BroadcastRow>(statement, [projectId, cursor.id, cursor.limit]);
  return rows.map((row) => ({ id: row.id, json: broadcastJson(row) }));
}

const COLUMNS = 'id, category, topic, message, overrides, recipients, status, total, failures, errors';

const selectBroadcast = sql(
  'select_broadcast',
  `select ${COLUMNS} from broadcasts where id = $1 and project_id = $2`,
);
// Index broadcasts_of_project (project_id, id).
const selectOlder = sql(
  'select_older_broadcasts',
  `select ${COLUMNS} from broadcasts where project_id = $1 and id < $2 order by id desc limit $3`,
);
const selectNewer = sql(
  'select_newer_broadcasts',
  `select ${COLUMNS} from broadcasts where project_id = $1 and id > $2 order by id limit $3`,
);
