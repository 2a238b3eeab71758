import type pg from 'pg';
import { PROJECT_HAS_LEFT } from '../client.ts';
import { type MovedTable, ofProject } from './tables.ts';

// A transaction that writes into a table may hold its lock for long. Requests that come later would wait
// behind ours, so it waits briefly, and tries again.
const LOCK_TIMEOUT_MS = 500;
const LOCK_TRIES = 120;
// PostgreSQL stops an automatic vacuum for a lock that waits for a second (deadlock_timeout).
const LONG_LOCK_TIMEOUT_MS = 1_200;
const LONG_EVERY = 4;

/** The lock that every transaction takes that writes rows of the project; the move takes it alone. */
export const MOVE_LOCK = (projectId: string): string => `hashtextextended('move of ${projectId}', 0)`;

/** A setting of a transaction with which it may write rows of a project that has left. */
export const AS_MOVER = "select set_config('belfry.mover', 'on', true)";

/**
 * Records in `changed_rows` which rows of the project are written from now on, and lets `leaving_projects`
 * reject such writes: with triggers, so that this holds for every node, of any release. Committed changes of
 * earlier transactions are complete when it resolves. Repeatable.
 */
export async function capture(
  client: pg.Client,
  tables: readonly MovedTable[],
  projectId: string,
): Promise<void> {
  await client.query(holdFunction);
  for (const table of tables) {
    await client.query(changeFunction(table, projectId));
    await withLock(client, triggersOf(table, projectId));
  }
}

/** Ends that. */
export async function release(client: pg.Client, tables: readonly MovedTable[]): Promise<void> {
  for (const table of tables) {
    const triggers = ['moving_insert', 'moving_update', 'moving_delete', 'moving_hold']
      .map((name) => `drop trigger if exists ${name} on ${table.name}`)
      .join(';');
    await withLock(client, triggers);
    await client.query(`drop function if exists ${functionOf(table)}()`);
  }
  await client.query('drop function if exists moving_hold()');
}

const functionOf = ({ name }: MovedTable) => `moving_${name}`;

/**
 * What is rejected when the project has left, if that is not every write. Jobs that a worker has leased then
 * fail with the rest of their transaction. When keys were used is written a minute later, for all projects at
 * once, and is of no importance.
 */
const REJECTED: Readonly<Record<string, string>> = {
  jobs: "tg_op = 'INSERT' and",
  project_key_uses: 'false and',
};

/**
 * The lock makes the last changes complete: the move takes it when all transactions that have written rows of
 * the project have ended, and others wait until it has decided. The statement after it sees what it decided.
 */
function changeFunction(table: MovedTable, projectId: string): string {
  const key = `array[${table.key.map((column) => `r.${column}::text`).join(', ')}]`;
  const record = (rows: string) => `
      insert into changed_rows (table_name, key)
      select '${table.name}', ${key} from ${rows} r where ${ofProject(table, 'r', projectId)};`;
  // Changes of settings need no record: their last state is copied when no transaction writes any more.
  const recorded =
    table.enters === 'ahead' || table.name === 'jobs'
      ? `if tg_op = 'UPDATE' then ${record('former')} end if; ${record('changed')}`
      : '';
  const rejects = REJECTED[table.name] ?? '';
  return `
    create or replace function ${functionOf(table)}() returns trigger language plpgsql as $$
    begin
      if current_setting('belfry.mover', true) = 'on'
        or not exists (select from changed r where ${ofProject(table, 'r', projectId)})
      then
        return null;
      end if;
      perform pg_advisory_xact_lock_shared(${MOVE_LOCK(projectId)});
      if ${rejects} exists (
        select from leaving_projects where project_id = '${projectId}' and left_at is not null
      ) then
        raise exception 'the project ${projectId} has moved to another cell'
          using errcode = '55000', constraint = '${PROJECT_HAS_LEFT}';
      end if;
      ${recorded}
      return null;
    end $$`;
}

// No worker claims jobs of the project that become ready: they get the lease of the move while it is alive.
// When the project has left, they are never due.
const holdFunction = `
  create or replace function moving_hold() returns trigger language plpgsql as $$
  begin
    select leases.id, case when p.left_at is not null then 'infinity'::timestamptz end
    into new.lease_id, new.due_at
    from leaving_projects p
    left join leases on leases.id = p.lease_id and p.left_at is null
    where p.project_id = new.project_id;
    return new;
  end $$`;

function triggersOf(table: MovedTable, projectId: string): string {
  const { name } = table;
  const execute = `for each statement execute function ${functionOf(table)}()`;
  const triggers = [
    `create or replace trigger moving_insert after insert on ${name}
      referencing new table as changed ${execute}`,
    `create or replace trigger moving_update after update on ${name}
      referencing old table as former new table as changed ${execute}`,
    `create or replace trigger moving_delete after delete on ${name}
      referencing old table as changed ${execute}`,
  ];
  if (name === 'jobs')
    triggers.push(`create or replace trigger moving_hold before insert or update on jobs for each row
      when (new.project_id = '${projectId}' and new.lease_id is null and new.due_at is null)
      execute function moving_hold()`);
  return triggers.join(';');
}

async function withLock(client: pg.Client, statements: string): Promise<void> {
  for (let tries = 1; ; tries += 1)
    try {
      const ms = tries % LONG_EVERY === 0 ? LONG_LOCK_TIMEOUT_MS : LOCK_TIMEOUT_MS;
      await client.query(`begin; set local lock_timeout = ${ms}; ${statements}; commit`);
      return;
    } catch (error) {
      await client.query('rollback').catch(() => {});
      if (!isLockTimeout(error) || tries === LOCK_TRIES) throw error;
    }
}

/** Whether a statement waited for a lock for too long. */
export function isLockTimeout(error: unknown): boolean {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return code === '55P03' || code === '40P01';
}
