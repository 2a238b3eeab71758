import { LRUCache } from 'lru-cache';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { Batcher } from '../../../lib/batcher.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import { type Clock, sinceMs } from '../../../lib/clock.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { DEFAULT_CELL } from './cells.ts';

/** A project as a credential names it. */
export type NamedProject = { projectId: string } | { apiKey: string };

// An entry is read again after FRESH_MS, and after STALE_MS requests wait for that: a node that has missed
// the message about a move finds the project again.
const FRESH_MS = 5_000;
const STALE_MS = 10_000;
// A switch takes less. If its command dies, requests go on in the former cell.
const HOLD_MS = 3_000;
// An entry takes about 200 bytes, so all of a kind at most 10 MB.
const MAX_ENTRIES = 50_000;

/** Finds the cells of projects by their ids and API keys. Caches them. */
export class CellDirectory {
  readonly #deps: { db: Queryable; clock: Clock };
  readonly #entries = new LRUCache<string, Entry>(cacheLimit(MAX_ENTRIES));
  // Invented names do not evict projects of other cells.
  readonly #notFound = new LRUCache<string, Entry>(cacheLimit(MAX_ENTRIES));
  readonly #load: Batcher<string, string | undefined>;
  /** Projects that are about to switch to another cell, by id and by API key. */
  readonly #moving = new Map<string, PromiseWithResolvers<void>>();
  #moves = 0;

  /** `db` is that of the default cell. */
  constructor({ db, clock }: { db: Queryable; clock: Clock }) {
    this.#deps = { db, clock };
    this.#load = new Batcher({ run: (names) => this.#read(names), concurrency: 1, maxItems: 500 });
  }

  /**
   * Returns the name of the project's cell; undefined for the default one, also for unknown projects. Returns
   * a promise only if it queries the database. A known project is found while that is unavailable.
   */
  find(named: NamedProject): string | undefined | Promise<string | undefined> {
    const name = 'apiKey' in named ? named.apiKey : named.projectId.toLowerCase();
    const moving = this.#moving.get(name);
    if (moving !== undefined) return moving.promise.then(() => this.find(named));
    const entry = this.#entries.get(name) ?? this.#notFound.get(name);
    if (entry === undefined) return this.#fetch(name);
    const ageMs = sinceMs(this.#deps.clock, entry.loadedAt);
    if (ageMs >= STALE_MS) return this.#fetch(name).catch(() => entry.cell);
    if (!entry.refreshing && ageMs >= FRESH_MS) {
      entry.refreshing = true;
      this.#fetch(name).catch(() => {
        entry.refreshing = false;
      });
    }
    return entry.cell;
  }

  /** Learns from the messages of commands when projects move. `bus` is that of the default cell. */
  follow(bus: Pick<Bus, 'subscribe'>): () => void {
    return bus.subscribe((message) => {
      if (message.type === 'project_moving') this.#hold([message.projectId, message.apiKey]);
      else if (message.type === 'project_stays') this.#letGo([message.projectId, message.apiKey]);
      else if (message.type === 'project_moved') {
        const cell = message.cell === DEFAULT_CELL ? undefined : message.cell;
        this.#moves += 1;
        for (const name of [message.projectId, message.apiKey]) this.#keep(name, cell);
        this.#letGo([message.projectId, message.apiKey]);
      }
    });
  }

  /** Look-ups wait until it is known whether the project has moved, at most for a while. */
  #hold(names: readonly string[]): void {
    const held = Promise.withResolvers<void>();
    for (const name of names) {
      this.#moving.get(name)?.resolve();
      this.#moving.set(name, held);
    }
    setTimeout(() => {
      for (const name of names) if (this.#moving.get(name) === held) this.#moving.delete(name);
      held.resolve();
    }, HOLD_MS).unref();
  }

  #letGo(names: readonly string[]): void {
    for (const name of names) {
      this.#moving.get(name)?.resolve();
      this.#moving.delete(name);
    }
  }

  async #fetch(name: string): Promise<string | undefined> {
    const moves = this.#moves;
    const cell = await this.#load.add(name);
    // What was read before a move is not kept after it.
    if (moves === this.#moves) this.#keep(name, cell);
    return cell;
  }

  #keep(name: string, cell: string | undefined): void {
    const [kept, other] =
      cell === undefined ? [this.#notFound, this.#entries] : [this.#entries, this.#notFound];
    kept.set(name, { cell, loadedAt: this.#deps.clock.now(), refreshing: false });
    other.delete(name);
  }

  async #read(names: string[]): Promise<(string | undefined)[]> {
    const rows = await this.#deps.db.query<Row>(selectCellsOfProjects, [
      names.filter((name) => !isKey(name)),
      names.filter(isKey),
    ]);
    const found = new Map(
      rows.flatMap(({ project_id, api_key, cell }) => [
        [project_id, cell],
        [api_key, cell],
      ]),
    );
    return names.map((name) => found.get(name));
  }
}

/** Writes the cell of a new project. `db` is that of the default cell. */
export async function assignToCell(
  db: Queryable,
  { id, apiKey, cell }: { id: string; apiKey: string; cell: string },
): Promise<void> {
  await db.query(insertProjectOfCell, [id, apiKey, cell]);
}

/** Writes the cell of projects that it has, such as those of a restored backup. */
export async function indexProjects(
  db: Queryable,
  cell: string,
  projects: readonly { id: string; apiKey: string }[],
): Promise<void> {
  await db.query(upsertProjectsOfCell, [
    uuidArray(projects.map(({ id }) => id)),
    textArray(projects.map(({ apiKey }) => apiKey)),
    cell,
  ]);
}

/** Returns the projects that the directory has in a cell. */
export async function projectsOf(db: Queryable, cell: string): Promise<{ id: string; apiKey: string }[]> {
  return db.query(selectProjectsOfCell, [cell]);
}

/** Returns the cells of these projects, of those that the directory has. */
export async function cellsOf(db: Queryable, ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await db.query<Row>(selectCellsOfProjects, [uuidArray(ids), textArray([])]);
  return new Map(rows.map(({ project_id, cell }) => [project_id, cell]));
}

/** Returns one of these projects that a database does not have, also if it has no tables. */
export async function firstMissingProject(
  db: Queryable,
  ids: readonly string[],
): Promise<string | undefined> {
  const [table] = await db.query<{ exists: boolean }>(findProjectsTable);
  if (table?.exists !== true) return ids[0];
  const [missing] = await db.query<{ id: string }>(selectMissingProject, [uuidArray(ids)]);
  return missing?.id;
}

/** Counts the projects of the cells besides the default one. */
export async function countProjects(db: Queryable): Promise<ReadonlyMap<string, number>> {
  const rows = await db.query<{ cell: string; projects: number }>(countProjectsOfCells);
  return new Map(rows.map(({ cell, projects }) => [cell, projects]));
}

const isKey = (name: string) => name.startsWith('pk_');

interface Entry {
  cell: string | undefined;
  loadedAt: number;
  refreshing: boolean;
}

interface Row {
  project_id: string;
  api_key: string;
  cell: string;
}

// cell_projects_pkey or cell_projects_api_key_key.
const selectCellsOfProjects = sql(
  'select_cells_of_projects',
  `select project_id, api_key, cell
  from cell_projects
  where project_id = any($1::uuid[]) or api_key = any($2::text[])`,
);

const insertProjectOfCell = sql(
  'insert_project_of_cell',
  'insert into cell_projects (project_id, api_key, cell) values ($1, $2, $3)',
);

const upsertProjectsOfCell = sql(
  'upsert_projects_of_cell',
  `insert into cell_projects (project_id, api_key, cell)
  select id, api_key, $3
  from unnest($1::uuid[], $2::text[]) as projects (id, api_key)
  order by id
  on conflict (project_id) do update set cell = excluded.cell`,
);

// The whole table, for a command.
const countProjectsOfCells = sql(
  'count_projects_of_cells',
  'select cell, count(*) as projects from cell_projects group by cell',
);

// The whole table, for a command.
const selectProjectsOfCell = sql(
  'select_projects_of_cell',
  'select project_id as id, api_key as "apiKey" from cell_projects where cell = $1 order by project_id',
);

const findProjectsTable = sql('find_projects_table', "select to_regclass('projects') is not null as exists");

// projects_pkey.
const selectMissingProject = sql(
  'select_missing_project',
  `select id
  from unnest($1::uuid[]) as wanted (id)
  where not exists (select from projects p where p.id = wanted.id)
  limit 1`,
);
