import { type Queryable, sql } from '../../../db/client.ts';
import { packJson, unpackJson } from '../../../lib/packed-json.ts';

export interface VersionRow {
  version: number;
  created_at: Date;
}

/** A version with its content as JSON text. */
export type SavedVersion = VersionRow & { content: string };

/** The versions of templates or workflows, by project and key. They outlive what they are versions of. */
export interface Versions {
  /** Returns the newest 100 versions, newest first. */
  list(db: Queryable, projectId: string, key: string): Promise<VersionRow[]>;
  get(db: Queryable, projectId: string, key: string, version: number): Promise<SavedVersion | undefined>;
  /** Adds a version, of which `content` is JSON text, and returns its number. One at a time for each key. */
  add(tx: Queryable, projectId: string, key: string, content: string, now: Date): Promise<number>;
}

/** Returns the versions in the table `<kind>_versions`, whose content is in the given column. */
export function versionsOf(kind: 'template' | 'workflow', column: 'content' | 'steps'): Versions {
  const { list, get, add } = statements(kind, column);
  return {
    list: (db, projectId, key) => db.query<VersionRow>(list, [projectId, key]),
    async get(db, projectId, key, version) {
      const [row] = await db.query<VersionRow & { content: Buffer }>(get, [projectId, key, version]);
      return row && { ...row, content: unpackJson(row.content) };
    },
    async add(tx, projectId, key, content, now) {
      const [added] = await tx.query<VersionRow>(add, [projectId, key, packJson(content), now]);
      if (added === undefined) throw new Error(`no version of the ${kind} ${key} was added`);
      return added.version;
    },
  };
}

function statements(kind: string, column: string) {
  // Rows are compared, because otherwise the planner may sort all of them for the newest.
  const newest = `from ${kind}_versions
    where (project_id, key, version) >= ($1, $2, 0) and (project_id, key, version) <= ($1, $2, 2147483647)
    order by project_id desc, key desc, version desc`;
  // Primary key, all.
  return {
    list: sql(`list_${kind}_versions`, `select version, created_at ${newest} limit 100`),
    get: sql(
      `get_${kind}_version`,
      `select version, created_at, ${column} as content
      from ${kind}_versions
      where project_id = $1 and key = $2 and version = $3`,
    ),
    add: sql(
      `insert_${kind}_version`,
      `insert into ${kind}_versions (project_id, key, version, ${column}, created_at)
      select $1, $2, coalesce(max(version), 0) + 1, $3, $4
      from (select version ${newest} limit 1) newest
      returning version`,
    ),
  };
}
