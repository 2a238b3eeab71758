import { type Queryable, sql } from '../../../db/client.ts';
import { isId } from '../../../lib/ids.ts';

/** A project without its secrets. */
export interface ProjectSummary {
  id: string;
  name: string;
  apiKey: string;
  createdAt: Date;
}

/** Returns all projects, oldest first. */
export async function listProjects({ db }: { db: Queryable }): Promise<ProjectSummary[]> {
  return (await db.query<Row>(selectProjects)).map(toSummary);
}

/** Returns the project of that name or id. */
export async function findProject(
  { db }: { db: Queryable },
  nameOrId: string,
): Promise<ProjectSummary | undefined> {
  const [row] = await db.query<Row>(selectProject, [nameOrId, isId(nameOrId) ? nameOrId : null]);
  return row && toSummary(row);
}

interface Row {
  id: string;
  name: string;
  api_key: string;
  created_at: Date;
}

function toSummary(row: Row): ProjectSummary {
  return { id: row.id, name: row.name, apiKey: row.api_key, createdAt: row.created_at };
}

// While its rows are deleted in the cell from which a project has moved, it is found in the other one.
const isHere = `not exists (
    select from leaving_projects l where l.project_id = projects.id and l.left_at is not null
  )`;

// Reads the whole table, for a command; there are few projects.
const selectProjects = sql(
  'select_projects',
  `select id, name, api_key, created_at
  from projects
  where ${isHere}
  order by id`,
);

// projects_pkey, projects_name_key. If the name of one project is the id of another, the id wins.
const selectProject = sql(
  'select_project',
  `select id, name, api_key, created_at
  from projects
  where (name = $1 or id = $2::uuid) and ${isHere}
  order by id = $2::uuid desc nulls last
  limit 1`,
);
