import { inTransaction } from '../in-transaction.ts';
import { copy, copyRows, type Ends } from './copy.ts';
import { type MovedTable, ofProject, ownedBy } from './tables.ts';

/**
 * Copies the rows that have changed since the last call, as `capture` records them: afterwards the target has
 * them as the source had them at the start of the call. Returns the number of changes. Repeatable, because a
 * change is forgotten only when the target has committed its row.
 */
export async function copyChanges(ends: Ends): Promise<number> {
  const { source, target, tables } = ends;
  // All that is read until the commit is of one moment.
  await source.query('begin isolation level repeatable read read only');
  let snapshot: string | undefined;
  let changes = 0;
  try {
    // Before that moment: retention replaces a month by a copy, which an older snapshot does not see.
    await source.query('lock table deliveries in access share mode');
    const { rows } = await source.query<{ name: string; changes: number; snapshot: string }>(selectChanged);
    for (const table of tables) {
      const changed = rows.find(({ name }) => name === table.name);
      if (changed === undefined) continue;
      snapshot = changed.snapshot;
      changes += changed.changes;
      await inTransaction(target, () => copyChanged(ends, table));
    }
  } finally {
    await source.query('rollback').catch(() => {});
  }
  if (snapshot !== undefined)
    await source.query('delete from changed_rows where pg_visible_in_snapshot(xact, $1::pg_snapshot)', [
      snapshot,
    ]);
  return changes;
}

/** Records all rows of a table as changed. */
export async function noteAll(
  { source, projectId }: Pick<Ends, 'source' | 'projectId'>,
  table: MovedTable,
): Promise<void> {
  const key = `array[${table.key.map((column) => `r.${column}::text`).join(', ')}]`;
  await source.query(
    `insert into changed_rows (table_name, key)
    select '${table.name}', ${key} from ${table.name} r where ${ofProject(table, 'r', projectId)}`,
  );
}

/** Replaces the changed rows of a table in the target: all at once, so that unique indexes are satisfied. */
async function copyChanged(ends: Ends, table: MovedTable): Promise<void> {
  const { target, tables, projectId } = ends;
  const keys = `select distinct key from changed_rows where table_name = '${table.name}'`;
  await target.query('create temporary table changed_keys (key text[] not null) on commit drop');
  await copy(ends, keys, 'changed_keys');
  const byKey = `from ${table.name} r join (${keys}) changed on ${matches(table, 'r', 'changed.key')}`;
  if (table.enters === 'with the project') {
    await target.query(`delete from arriving_rows a using changed_keys changed
      where a.project_id = '${projectId}' and a.table_name = '${table.name}' and a.key = changed.key`);
    await copy(ends, arrivingRows(table, projectId, byKey), ARRIVING_COLUMNS);
    return;
  }
  await target.query(`delete from ${table.name} r using changed_keys changed
    where ${matches(table, 'r', 'changed.key')}`);
  await copyRows(ends, table, byKey);
  // Rows may be deleted after their owner. Then nothing shows whose they were, so they are deleted with it.
  for (const owned of ownedBy(tables, table)) {
    if (owned.enters !== 'ahead') continue;
    await target.query(`delete from ${owned.name} r using changed_keys changed
      where r.${owned.key[0]} = changed.key[1]::uuid
        and not exists (select from ${table.name} owners where owners.id = changed.key[1]::uuid)`);
  }
}

/** The columns of `arrivingRows`. */
export const ARRIVING_COLUMNS = 'arriving_rows (project_id, table_name, key, row)';

/** The select of rows for `arriving_rows`, as JSON. `from` as for `copyRows`. */
export function arrivingRows(
  table: MovedTable,
  projectId: string,
  from: string,
  json = 'row_to_json(r)',
): string {
  const key = `array[${table.key.map((column) => `r.${column}::text`).join(', ')}]`;
  return `select '${projectId}'::uuid, '${table.name}', ${key}, ${json} ${from}`;
}

/** The condition that a row has a key, whose values are cast to the types of the columns. */
function matches({ key, keyTypes }: MovedTable, row: string, keys: string): string {
  return key
    .map((column, index) => `${row}.${column} = (${keys})[${index + 1}]::${keyTypes[index]}`)
    .join(' and ');
}

const selectChanged = `
  select table_name as name, count(*)::int as changes, pg_current_snapshot()::text as snapshot
  from changed_rows
  group by table_name`;
