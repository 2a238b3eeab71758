import { type Queryable, sql } from '../../../db/client.ts';
import { unpackJson } from '../../../lib/packed-json.ts';
import { type SavedVersion, versionsOf } from '../../ground/versions/versions.ts';

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

export const workflowVersions = versionsOf('workflow', 'steps');

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

/** Returns the API form of a workflow, as JSON text. Without `disabled` unless it is, or empty `triggers`. */
export function workflowJson({ triggers, steps, ...workflow }: WorkflowRow): string {
  const { key, version, disabled, created_at, updated_at } = workflow;
  const members = JSON.stringify({ key, ...(disabled ? { disabled } : {}), version, created_at, updated_at });
  const ofTriggers = triggers === null ? '' : `,"triggers":${triggers}`;
  return `${members.slice(0, -1)}${ofTriggers},"steps":${steps}}`;
}

/** Returns the API form of a version, as JSON text. */
export function versionJson({ version, created_at, content: steps }: SavedVersion): string {
  return `${JSON.stringify({ version, created_at }).slice(0, -1)},"steps":${steps}}`;
}

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
