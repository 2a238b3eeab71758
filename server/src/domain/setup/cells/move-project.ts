import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { PORTABLE_SESSION } from '../../../db/backup/catalog.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { capture, isLockTimeout, release } from '../../../db/move/capture.ts';
import { AT_ONCE, copyAhead, type Ends, type Position, START } from '../../../db/move/copy.ts';
import { deleteRows } from '../../../db/move/delete.ts';
import { makeRoom, placeEvents } from '../../../db/move/feeds.ts';
import { closeGate, copySettings, enter, leave } from '../../../db/move/leave.ts';
import { takeMovesLock } from '../../../db/move/lock.ts';
import { copyChanges, noteAll } from '../../../db/move/sync.ts';
import { listMovedTables } from '../../../db/move/tables.ts';
import { Lease } from '../../../queue/lease.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { DEFAULT_CELL } from './cells.ts';

/** A cell as a move needs it. */
export interface MovingCell {
  /** Its name. */
  readonly cell: string;
  readonly db: Database;
  readonly bus: Bus;
}

export interface MoveRequest {
  /** The default cell, which has the directory. */
  readonly main: MovingCell;
  readonly from: MovingCell;
  readonly to: MovingCell;
  readonly project: MovingProject;
  /** Names this process in the table of leases. */
  readonly nodeId: string;
  readonly onProgress?: (progress: MoveProgress) => void;
}

export interface MovingProject {
  readonly id: string;
  readonly name: string;
  readonly apiKey: string;
}

/** What a move does now. */
export type MoveProgress =
  | { step: 'copy'; table: string; rows: number }
  | { step: 'catch up'; changes: number }
  /** Deliveries that have begun in the former cell end there. */
  | { step: 'wait for jobs'; jobs: number }
  | { step: 'delete'; rows: number };

export interface Moved {
  /** How long writes of the project waited, in milliseconds; undefined if an earlier call has switched. */
  pausedMs: number | undefined;
}

/** The move cannot go on. The message says why, and what to do. */
export class MoveRefused extends Error {}

// The changes of this many rows are copied while writes wait.
const FEW_CHANGES = 500;
const ROUNDS = 200;
const JOBS_END_WITHIN_MS = 10 * 60_000;
const LOOK_EVERY_MS = 100;
const TRIES = 50;
// Nodes hold new requests of the project back (directory.ts). What they have begun ends meanwhile: some of it
// is written in batches, every 100 ms, and fan-outs take longer.
const SETTLE_MS = { least: 150, most: 600, every: 20 };
// Nodes that miss the message about it find the new cell after this time (STALE_MS in directory.ts).
const NODES_KNOW_WITHIN_MS = 10_500;

// Nothing is known yet of tables that were just filled, such as `changed_rows`. A few rows of a large table
// must not be found by reading all of it.
const BY_INDEX =
  'set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off';

/**
 * Moves a project to another cell while it is in use. Its rows are copied, and so are their changes; then
 * writes of the project wait for a moment, in which the rest is copied and the directory leads to the new
 * cell. Jobs of the project that have begun end before. If the process dies, call it again: until the
 * switch, the project goes on in its former cell, and afterwards in the new one.
 */
export async function moveProject(request: MoveRequest): Promise<Moved> {
  return withConnections(request, (connections) => new Move({ ...request, ...connections }).run());
}

/** A move that was started, and has not ended. */
export interface StartedMove {
  projectId: string;
  from: string;
  to: string;
  /** Whether the directory leads to the new cell: only the rows in the former one are left to delete. */
  switched: boolean;
}

/** Returns the move that was started, if there is one. `db` is that of the default cell. */
export async function startedMove(db: Queryable): Promise<StartedMove | undefined> {
  const [move] = await db.query<StartedMove>(selectMove);
  return move;
}

/** Returns a project that has rows in a cell, even if it has left that. */
export async function projectOfMove(db: Queryable, id: string): Promise<MovingProject | undefined> {
  const [project] = await db.query<MovingProject>(selectProject, [id]);
  return project;
}

/** Ends a move whose project has not left its cell: there, everything is as if it had never begun. */
export async function cancelMove(request: Omit<MoveRequest, 'nodeId'>): Promise<void> {
  await withConnections(request, async ({ source, target, tables, projectId }) => {
    // Read now, because another command may have ended the move before this one got the lock.
    const move = await startedMove(request.main.db);
    if (move?.projectId !== projectId) throw new MoveRefused('there is no move to cancel');
    // The former cell does not know of a move that was interrupted after its rows there were deleted.
    if (move.switched || (await request.from.db.query(selectLeft, [projectId])).length > 0)
      throw new MoveRefused('the project has left its cell: the move can only be finished');
    // First the position: without triggers, a move that is started again must not continue from it.
    await forgetPosition(target, projectId);
    await release(source, tables);
    await forget(source, projectId);
    await deleteRows(target, tables, projectId);
    await request.main.db.query(deleteMove, [projectId]);
  });
}

/** Deletes the rows of projects in a cell that is not theirs. */
export async function deleteProjects(db: Pick<Database, 'connect'>, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  const client = await db.connect();
  try {
    await client.query(`${PORTABLE_SESSION}; ${BY_INDEX}`);
    const tables = await listMovedTables(client);
    for (const id of ids) await deleteRows(client, tables, id);
  } finally {
    await client.end().catch(() => {});
  }
}

/**
 * Ends the move from or to a cell that is lost, in `survivor`, the other cell of it: the project is there
 * completely or not at all. A project that had not left the survivor goes on there. If it had left a moment
 * before, it returns without what `leave` has removed. The caller holds the lock of moves.
 */
export async function endMoveWithout(
  lost: string,
  { main, survivor }: { main: MovingCell; survivor: MovingCell },
): Promise<void> {
  const move = await startedMove(main.db);
  if (move === undefined || (move.from !== lost && move.to !== lost)) return;
  const { projectId, switched } = move;
  const client = await survivor.db.connect();
  try {
    await client.query(`${PORTABLE_SESSION}; ${BY_INDEX}`);
    const tables = await listMovedTables(client);
    if (move.to === lost) {
      if (switched) await deleteRows(client, tables, projectId);
      await release(client, tables);
      await client.query(RESUME_JOBS, [projectId]);
      await forget(client, projectId);
    } else if (!switched) {
      // Its settings enter in one transaction, after everything else.
      const project = await projectOfMove(survivor.db, projectId);
      if (project !== undefined) await switchDirectory(main.db, project, survivor.cell);
      else {
        await forgetPosition(client, projectId);
        await deleteRows(client, tables, projectId);
      }
    }
    await main.db.query(deleteMove, [projectId]);
  } finally {
    await client.end().catch(() => {});
  }
}

/** Deletes what waits in the cell that the project moves to, and how far the move has come. */
async function forgetPosition(target: pg.Client, projectId: string): Promise<void> {
  await target.query('delete from arriving_projects where project_id = $1', [projectId]);
  await target.query('delete from arriving_rows where project_id = $1', [projectId]);
}

// Those of a project that has left are never due.
const RESUME_JOBS =
  "update jobs set due_at = null where project_id = $1 and lease_id is null and due_at = 'infinity'";

/** Lets requests of the project find the new cell from now on. */
async function switchDirectory(db: Queryable, { id, apiKey }: MovingProject, cell: string): Promise<void> {
  if (cell === DEFAULT_CELL) await db.query(switchToDefault, [id]);
  else await db.query(switchCell, [id, apiKey, cell]);
}

interface Connections extends Ends {
  /** Another one to the source, for the moment in which writes wait. */
  readonly gate: pg.Client;
}

/** Runs the only command that works on moves at this time. */
async function withConnections<Result>(
  { main, from, to, project }: Omit<MoveRequest, 'nodeId'>,
  work: (connections: Connections) => Promise<Result>,
): Promise<Result> {
  const lock = await main.db.connect();
  const [source, target, gate] = [await from.db.connect(), await to.db.connect(), await from.db.connect()];
  try {
    if (!(await takeMovesLock(lock)))
      throw new MoveRefused('another move or a backup is running: wait until it has ended');
    for (const client of [source, target, gate]) await client.query(`${PORTABLE_SESSION}; ${BY_INDEX}`);
    return await work({
      source,
      target,
      gate,
      tables: await listMovedTables(source),
      projectId: project.id,
    });
  } finally {
    await Promise.all([lock, source, target, gate].map((client) => client.end().catch(() => {})));
  }
}

class Move {
  readonly #context: MoveRequest & Connections;

  constructor(context: MoveRequest & Connections) {
    this.#context = context;
  }

  async run(): Promise<Moved> {
    const state = await this.#begin();
    let pausedMs: number | undefined;
    if (state === 'started') {
      await this.#copy();
      pausedMs = await this.#cross();
    }
    if (state === 'left') await this.#arrive();
    await this.#clean();
    return { pausedMs };
  }

  /** Enters the move into the directory. Returns how far an earlier call has come. */
  async #begin(): Promise<'started' | 'left' | 'switched'> {
    const { main, from, to, projectId } = this.#context;
    const move = await startedMove(main.db);
    if (move === undefined) {
      await this.#checkName();
      await main.db.query(insertMove, [projectId, from.cell, to.cell]);
    } else if (move.projectId !== projectId || move.from !== from.cell || move.to !== to.cell)
      throw new MoveRefused(`finish or cancel the move of project ${move.projectId} first`);
    if (move?.switched) return 'switched';
    return (await from.db.query(selectLeft, [projectId])).length > 0 ? 'left' : 'started';
  }

  /** Throws if the project could not enter the target, where names are unique. */
  async #checkName(): Promise<void> {
    const { to, project } = this.#context;
    if ((await to.db.query(selectNamed, [project.name])).length > 0)
      throw new MoveRefused(`the cell ${to.cell} has a project named ${project.name}`);
  }

  async #copy(): Promise<void> {
    const context = this.#context;
    const { from, to, source, target, tables, projectId, onProgress } = context;
    let [arriving] = await to.db.query<{ position: string }>(selectPosition, [projectId]);
    if (arriving === undefined) {
      await deleteRows(target, tables, projectId); // of an interrupted cancellation
      arriving = { position: JSON.stringify(START) };
      await to.db.query(insertArriving, [projectId, arriving.position]);
    }
    await from.db.query(insertLeaving, [projectId]);
    await capture(source, tables, projectId);
    const position = JSON.parse(arriving.position) as Position;
    if (position.part === 0 && position.after === undefined)
      for (const table of tables.filter(({ name }) => AT_ONCE.has(name))) await noteAll(context, table);
    await copyAhead(context, position, (table, rows) => onProgress?.({ step: 'copy', table, rows }));
    await this.#catchUp();
  }

  async #catchUp(): Promise<void> {
    for (let round = 1; round <= ROUNDS; round += 1) {
      const changes = await copyChanges(this.#context);
      this.#context.onProgress?.({ step: 'catch up', changes });
      if (changes < FEW_CHANGES) return;
    }
    throw new MoveRefused('the project changes faster than its changes can be copied: try again later');
  }

  /** Lets the project leave the source and enter the target. Returns how long its writes waited. */
  async #cross(): Promise<number> {
    const { from, main, gate, nodeId, project, projectId } = this.#context;
    let failure: unknown;
    const lease = new Lease({
      db: from.db,
      node: `move by ${nodeId}`,
      onError(error) {
        failure = error;
      },
    });
    await lease.start();
    try {
      for (let tries = 1; ; tries += 1) {
        await this.#holdJobs(lease);
        await makeRoom(this.#context);
        await this.#catchUp();
        main.bus.publish({ type: 'project_moving', projectId, apiKey: project.apiKey });
        const startedMs = performance.now();
        await this.#settle(lease);
        const hasLeft = await this.#leave(lease).catch(async (error: unknown) => {
          await gate.query('rollback').catch(() => {});
          if (error instanceof MoveRefused)
            main.bus.publish({ type: 'project_stays', projectId, apiKey: project.apiKey });
          if (!isLockTimeout(error)) throw error;
          return false;
        });
        if (hasLeft) {
          await this.#arrive();
          return performance.now() - startedMs;
        }
        if (tries === TRIES)
          throw new MoveRefused('transactions of the project leave no moment to switch: try again later');
        main.bus.publish({ type: 'project_stays', projectId, apiKey: project.apiKey });
        if (failure !== undefined && !lease.isFresh) throw failure;
      }
    } finally {
      await lease.stop().catch(() => {}); // it expires
    }
  }

  /** Lets no job of the project start in the source, and waits until those that have started end. */
  async #holdJobs(lease: Lease): Promise<void> {
    const { source, projectId, onProgress } = this.#context;
    const untilMs = performance.now() + JOBS_END_WITHIN_MS;
    for (;;) {
      await lease.refresh();
      await source.query('update leaving_projects set lease_id = $2 where project_id = $1', [
        projectId,
        lease.id,
      ]);
      await this.#holdReady();
      const { rows } = await source.query<{ jobs: number }>(countRunning, [projectId, lease.id]);
      const jobs = rows[0]?.jobs ?? 0;
      if (jobs === 0) return;
      onProgress?.({ step: 'wait for jobs', jobs });
      if (performance.now() > untilMs)
        throw new MoveRefused(
          `${jobs} jobs of the project have not ended within 10 minutes: try again later`,
        );
      await delay(LOOK_EVERY_MS);
    }
  }

  /**
   * Waits until what has begun has ended. A transaction that waits at the gate may have locked rows that
   * another one needs, which the move waits for: the fewer there are, the less often that happens.
   */
  async #settle(lease: Lease): Promise<void> {
    const { source, projectId } = this.#context;
    const startedMs = performance.now();
    for (let ms = 0, jobs = 1; ms < SETTLE_MS.least || (jobs > 0 && ms < SETTLE_MS.most); ) {
      await delay(SETTLE_MS.every);
      const { rows } = await source.query<{ jobs: number }>(countAllRunning, [projectId, lease.id]);
      jobs = rows[0]?.jobs ?? 0;
      ms = performance.now() - startedMs;
    }
  }

  /** Leases the jobs that are ready: the trigger does. */
  async #holdReady(): Promise<void> {
    const { source, projectId } = this.#context;
    for (let isHeld = true, more = true; isHeld && more; ) {
      const { rows } = await source.query<{ lease_id: string | null }>(holdReady, [projectId]);
      more = rows.length > 0;
      isHeld = rows.every(({ lease_id }) => lease_id !== null); // else the lease has expired
    }
  }

  /** Returns false if something has to be prepared again: jobs have started, or there are many new events. */
  async #leave(lease: Lease): Promise<boolean> {
    const context = this.#context;
    const { source, gate, projectId } = context;
    await closeGate(gate, projectId);
    const { rows } = await source.query<{ jobs: number }>(countRunning, [projectId, lease.id]);
    const held = await source.query(selectHold, [projectId, lease.id]);
    const isReady = rows[0]?.jobs === 0 && held.rowCount === 1;
    if (isReady) await copyChanges(context);
    const places = isReady ? await placeEvents(context) : undefined;
    if (places === undefined) {
      await gate.query('rollback');
      return false;
    }
    await copySettings(context, places);
    await this.#checkName(); // one may have been created since the move began
    await leave(gate, projectId);
    return true;
  }

  async #arrive(): Promise<void> {
    const { main, from, to, project, projectId } = this.#context;
    await enter(this.#context);
    await switchDirectory(main.db, project, to.cell);
    const moved = { type: 'project_moved', projectId, apiKey: project.apiKey, cell: to.cell } as const;
    for (const { bus } of new Set([main, from, to])) {
      bus.publish(moved);
      bus.publish({ type: 'project_changed', projectId });
    }
  }

  async #clean(): Promise<void> {
    const { main, from, source, tables, projectId, onProgress } = this.#context;
    await delay(NODES_KNOW_WITHIN_MS);
    await deleteRows(source, tables, projectId, (rows) => onProgress?.({ step: 'delete', rows }));
    // In the former cell, names of its users lead to no user now.
    from.bus.publish({ type: 'missed', sinceMs: undefined });
    await release(source, tables);
    await forget(source, projectId);
    await main.db.query(deleteMove, [projectId]);
  }
}

/** Deletes what the cell that the project leaves knows of the move. */
async function forget(source: pg.Client, projectId: string): Promise<void> {
  await source.query('delete from changed_rows');
  await source.query('delete from leaving_projects where project_id = $1', [projectId]);
}

// A row at most.
const selectMove = sql(
  'select_move',
  `select project_id as "projectId", from_cell as "from", to_cell as "to", switched_at is not null as switched
  from project_moves`,
);
const insertMove = sql(
  'insert_move',
  'insert into project_moves (project_id, from_cell, to_cell) values ($1, $2, $3)',
);
const deleteMove = sql('delete_move', 'delete from project_moves where project_id = $1');
const insertLeaving = sql(
  'insert_leaving_project',
  'insert into leaving_projects (project_id) values ($1) on conflict do nothing',
);
const selectLeft = sql(
  'select_left_project',
  'select from leaving_projects where project_id = $1 and left_at is not null',
);
const selectPosition = sql(
  'select_arriving_position',
  'select position from arriving_projects where project_id = $1',
);
const insertArriving = sql(
  'insert_arriving_project',
  'insert into arriving_projects (project_id, position) values ($1, $2)',
);
const selectProject = sql(
  'select_project_of_move',
  'select id, name, api_key as "apiKey" from projects where id = $1',
);
const selectNamed = sql('select_project_named', 'select from projects where name = $1');
// The commit from which on requests of the project find the new cell.
const switchCell = sql(
  'switch_cell_of_project',
  `with moved as (
    update project_moves set switched_at = now() where project_id = $1
  )
  insert into cell_projects (project_id, api_key, cell)
  values ($1, $2, $3)
  on conflict (project_id) do update set cell = excluded.cell`,
);
const switchToDefault = sql(
  'switch_project_to_default_cell',
  `with moved as (
    update project_moves set switched_at = now() where project_id = $1
  )
  delete from cell_projects where project_id = $1`,
);

// A command may read all jobs of the cell.
const holdReady = `
  update jobs
  set enqueued_at = enqueued_at
  where id in (
    select id from jobs
    where project_id = $1 and due_at is null and lease_id is null
    limit 1000
    for update skip locked
  )
  returning lease_id`;
const countAllRunning = `
  select count(*)::int as jobs
  from jobs
  where project_id = $1 and lease_id is not null and lease_id <> $2`;
// Fan-outs only write: what is not committed when the project leaves is done in the new cell.
const countRunning = `${countAllRunning} and kind <> 'fan_out'`;
const selectHold = `
  select
  from leaving_projects p
  join leases l on l.id = p.lease_id
  where p.project_id = $1 and p.lease_id = $2 and l.expires_at > now()`;
