import { type Queryable, sql } from '../../../db/client.ts';
import { unpackJson } from '../../../lib/packed-json.ts';

export interface WorkflowRow {
  key: string;
  version: number;
  disabled: boolean;
  /** JSON texts. */
  triggers: string | null;
  steps: string;
  created_at: Date;
  updated_at: Date;
}

/** A version without its steps. */
export interface VersionRow {
  version: number;
  created_at: Date;
}

type Stored = Omit<WorkflowRow, 'steps'> & { steps: Buffer };

/** Returns the workflow with this key, if the project has one. */
export async function getWorkflow(
  db: Queryable,
  projectId: string,
  key: string,
): Promise<WorkflowRow | undefined> {
  const [row] = await db.query<Stored>(selectWorkflow, [projectId, key]);
  return row && { ...row, steps: unpackJson(row.steps) };
}

/** Returns the project's workflows in alphabetical order. */
export async function listWorkflows(db: Queryable, projectId: string): Promise<WorkflowRow[]> {
  const rows = await db.query<Stored>(selectWorkflows, [projectId]);
  return rows.map((row) => ({ ...row, steps: unpackJson(row.steps) }));
}

/** Returns the newest 100 versions of a workflow, newest first. */
export function listVersions(db: Queryable, projectId: string, key: string): Promise<VersionRow[]> {
  return db.query<VersionRow>(selectVersions, [projectId, key]);
}

/** Returns a version of a workflow with its steps as JSON text, even if the workflow was deleted. */
export async function getVersion(
  db: Queryable,
  projectId: string,
  key: string,
  version: number,
): Promise<(VersionRow & { steps: string }) | undefined> {
  const [row] = await db.query<VersionRow & { steps: Buffer }>(selectVersion, [projectId, key, version]);
  return row && { ...row, steps: unpackJson(row.steps) };
}

/** Returns the API form of a workflow, as JSON text. Without `disabled` unless it is, or empty `triggers`. */
export function workflowJson({ triggers, steps, ...workflow }: WorkflowRow): string {
  const { key, version, disabled, created_at, updated_at } = workflow;
  const members = JSON.stringify({ key, ...(disabled ? { disabled } : {}), version, created_at, updated_at });
  const ofTriggers = triggers === null ? '' : `,"triggers":${triggers}`;
  return `${members.slice(0, -1)}${ofTriggers},"steps":${steps}}`;
}

/** Returns the API form of a version, as JSON text. */
export function versionJson({ version, created_at, steps }: VersionRow & { steps: string }): string {
  return `${JSON.stringify({ version, created_at }).slice(0, -1)},"steps":${steps}}`;
}

/**
 * The versions of workflow `$2` of project `$1`. Rows are compared, because otherwise the planner may sort
 * all of them for the newest.
 */
export const VERSIONS =
  '(project_id, key, version) >= ($1, $2, 0) and (project_id, key, version) <= ($1, $2, 2147483647)';

// Primary keys, all.
const COLUMNS =
  'w.key, w.version, w.disabled, w.triggers::text as triggers, w.created_at, w.updated_at, v.steps';
const WITH_STEPS = `from workflows w
  cross join lateral (
    select steps
    from workflow_versions
    where project_id = w.project_id and key = w.key and version = w.version
    limit 1
  ) v`;
const selectWorkflow = sql(
  'get_workflow',
  `select ${COLUMNS} ${WITH_STEPS} where w.project_id = $1 and w.key = $2`,
);
const selectWorkflows = sql(
  'list_workflows',
  `select ${COLUMNS} ${WITH_STEPS} where w.project_id = $1 order by w.key`,
);
const selectVersion = sql(
  'get_workflow_version',
  `select version, steps, created_at
  from workflow_versions
  where project_id = $1 and key = $2 and version = $3`,
);
const selectVersions = sql(
  'list_workflow_versions',
  `select version, created_at
  from workflow_versions
  where ${VERSIONS}
  order by project_id desc, key desc, version desc
  limit 100`,
);
