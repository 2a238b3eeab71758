import type pg from 'pg';
import { inTransaction } from '../in-transaction.ts';
import { AS_MOVER, MOVE_LOCK } from './capture.ts';
import { copy, type Ends } from './copy.ts';
import { type FeedPlaces, placedFeed } from './feeds.ts';
import { ARRIVING_COLUMNS, arrivingRows } from './sync.ts';
import { ofProject, XACT_COLUMNS } from './tables.ts';

const LOCK_WITHIN_MS = 300;

// Rows that the loops of the source would still work on, and fail. A row that a loop has locked is deleted
// later, with all others.
const ACTIVE = ['integration_pauses', 'installations', 'workflow_triggers', 'workflow_feeds'];

/**
 * Waits for the transactions that write rows of the project, and lets no other one begin, until `client` ends
 * its transaction. Throws (`isLockTimeout`) if one takes long.
 */
export async function closeGate(client: pg.Client, projectId: string): Promise<void> {
  await client.query(`begin; set local lock_timeout = ${LOCK_WITHIN_MS}`);
  await client.query(`select pg_advisory_xact_lock(${MOVE_LOCK(projectId)})`);
}

/** Copies the settings into `arriving_rows`, when the gate is closed. */
export async function copySettings(ends: Ends, places: FeedPlaces): Promise<void> {
  const { target, tables, projectId } = ends;
  const settings = tables.filter(({ name, enters }) => enters === 'with the project' && name !== 'jobs');
  const rows = settings.map((table) =>
    arrivingRows(
      table,
      projectId,
      `from ${table.name} r where ${ofProject(table, 'r', projectId)}`,
      XACT_COLUMNS[table.name] && placedFeed('r', places, projectId),
    ),
  );
  await inTransaction(target, async () => {
    await target.query("delete from arriving_rows where project_id = $1 and table_name <> 'jobs'", [
      projectId,
    ]);
    await copy(ends, rows.join(' union all '), ARRIVING_COLUMNS);
  });
}

/** Rejects all writes of the project in the source from now on, and opens the gate for them. */
export async function leave(gate: pg.Client, projectId: string): Promise<void> {
  const unlocked = (name: string) =>
    `ctid = any (array(select ctid from ${name} where project_id = '${projectId}' for update skip locked))`;
  await gate.query(
    [
      AS_MOVER,
      // Disabled, not deleted: their messages are found through them.
      `update webhooks set disabled_at = clock_timestamp() where ${unlocked('webhooks')}`,
      ...ACTIVE.map((name) => `delete from ${name} where ${unlocked(name)}`),
      `update leaving_projects set left_at = clock_timestamp() where project_id = '${projectId}'`,
      'commit',
    ].join('; '),
  );
}

/** Moves the arriving rows into their tables: from now on the project lives in the target. Repeatable. */
export async function enter({ target, tables, projectId }: Omit<Ends, 'source'>): Promise<void> {
  const entering = tables.filter(({ enters }) => enters === 'with the project');
  const statements = entering.map(({ name, columns }) => {
    // A job gets a new id, and no lease.
    const own = name === 'jobs' ? columns.filter((column) => !['id', 'lease_id'].includes(column)) : columns;
    return `with entering as materialized (
        select ${own.map((column) => `r.${column}`).join(', ')}
        from arriving_rows a, json_populate_record(null::${name}, a.row) r
        where a.project_id = '${projectId}' and a.table_name = '${name}'
        order by ${name === 'jobs' ? '(a.key)[1]::bigint' : 'a.key'}
      )
      insert into ${name} (${own.join(', ')}) select * from entering`;
  });
  // Several statements in one query are one transaction.
  await target.query(
    [
      ...statements,
      `delete from arriving_rows where project_id = '${projectId}'`,
      `delete from arriving_projects where project_id = '${projectId}'`,
    ].join('; '),
  );
}
