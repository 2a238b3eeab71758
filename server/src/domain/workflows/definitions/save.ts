import type { NewWorkflow } from '../../../contract/workflow.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { EgressGuard } from '../../../lib/egress.ts';
import { readJson, writeJson } from '../../../lib/exact-numbers.ts';
import { memberOf } from '../../../lib/members.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { privateHostProblems } from '../../ground/requests/private-hosts.ts';
import { getWorkflow, type WorkflowRow, workflowVersions } from './get.ts';
import { httpHosts } from './http-hosts.ts';
import { parseProgram } from './program.ts';
import { saveSchedules, scheduleProblems } from './schedules.ts';
import { saveTriggers, triggerProblems } from './triggers.ts';

const MAX_WORKFLOWS = 1_000;
// The steps of all workflows of a project, as JSON: a list returns them all.
const MAX_CHARACTERS = 16 * 1024 * 1024;
// `GET /workflows/runs/versions` is the path of a run.
const RESERVED = 'runs';

/** Returns the problems of a workflow of any shape that its schema does not find. */
export async function workflowProblems(workflow: unknown, nowMs: number): Promise<string[]> {
  const key = memberOf(workflow, 'key');
  const problems = key === RESERVED ? [`Param 'key' must not be ${key}`] : [];
  return [
    ...problems,
    ...scheduleProblems(memberOf(workflow, 'triggers'), nowMs),
    ...(await triggerProblems(memberOf(workflow, 'triggers'))),
    ...(await parseProgram(memberOf(workflow, 'steps'), nowMs)).problems,
  ];
}

/**
 * The same, with those of the hosts that this server must not connect to. A disabled workflow connects to
 * none, and one that was saved when its hosts were allowed can still be disabled.
 */
export async function problemsOnServer(
  { clock, egress }: { clock: Clock; egress: EgressGuard },
  workflow: unknown,
): Promise<string[]> {
  const hosts = memberOf(workflow, 'disabled') === true ? [] : httpHosts(workflow);
  return [
    ...(await workflowProblems(workflow, clock.now())),
    ...(await privateHostProblems({ egress }, hosts, workflow)),
  ];
}

/**
 * Creates or replaces a workflow. New steps are a new version; runs that have started keep theirs. Throws
 * `validation_failed`.
 */
export async function saveWorkflow(
  { db, clock, egress }: { db: Pick<Database, 'transaction'>; clock: Clock; egress: EgressGuard },
  projectId: string,
  workflow: NewWorkflow,
): Promise<WorkflowRow> {
  const problems = await problemsOnServer({ clock, egress }, workflow);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  return db.transaction((tx) => save(tx, projectId, workflow, new Date(clock.now())));
}

async function save(
  tx: Queryable,
  projectId: string,
  { key, disabled = false, triggers = [], steps }: NewWorkflow,
  now: Date,
): Promise<WorkflowRow> {
  await tx.query(lockWorkflow, [`${projectId} ${key}`]);
  const before = await getWorkflow(tx, projectId, key);
  const text = writeJson(steps);
  const ofTriggers = triggers.length === 0 ? null : writeJson(triggers);
  if (before?.steps === text && before.disabled === disabled && before.triggers === ofTriggers) return before;
  const size = text.length + (ofTriggers?.length ?? 0);
  await refuseTooMany(tx, projectId, key, size);
  const version =
    before?.steps === text ? before.version : await workflowVersions.add(tx, projectId, key, text, now);
  await tx.query(upsertWorkflow, [projectId, key, version, disabled, now, size, ofTriggers]);
  if ((before?.triggers ?? null) !== ofTriggers) {
    await saveSchedules(tx, projectId, key, { triggers, nowMs: now.getTime() });
    await saveTriggers(tx, projectId, key, triggers);
  }
  await recordEvents(tx, [
    {
      projectId,
      type: 'workflow.saved',
      details: { context: { workflow_key: key }, payload: { version, disabled } },
    },
  ]);
  const saved = await getWorkflow(tx, projectId, key);
  if (saved === undefined) throw new Error(`workflow ${key} does not exist after it was saved`);
  return saved;
}

async function refuseTooMany(tx: Queryable, projectId: string, key: string, size: number): Promise<void> {
  const [others] = await tx.query<{ count: number; size: number }>(measureOthers, [projectId, key]);
  if (others === undefined) return;
  const problems = [];
  if (others.count >= MAX_WORKFLOWS)
    problems.push(`Param 'key' cannot be added: a project can have at most ${MAX_WORKFLOWS} workflows`);
  if (others.size + size > MAX_CHARACTERS)
    problems.push(
      `Param 'steps' is too long: the steps of all workflows can have at most ${MAX_CHARACTERS} characters`,
    );
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
}

/**
 * Saves the steps of an earlier version as a new version. Returns undefined if there is no such workflow or
 * version.
 */
export async function restoreVersion(
  context: { db: Pick<Database, 'transaction' | 'query'>; clock: Clock; egress: EgressGuard },
  projectId: string,
  key: string,
  version: number,
): Promise<WorkflowRow | undefined> {
  const workflow = await getWorkflow(context.db, projectId, key);
  const found = await workflowVersions.get(context.db, projectId, key, version);
  if (workflow === undefined || found === undefined) return undefined;
  const { disabled } = workflow;
  const triggers =
    workflow.triggers === null ? [] : (readJson(workflow.triggers) as NonNullable<NewWorkflow['triggers']>);
  return saveWorkflow(context, projectId, {
    key,
    disabled,
    triggers,
    steps: readJson(found.content) as NewWorkflow['steps'],
  });
}

/** Deletes a workflow. Its runs continue. Returns whether there was one. */
export async function deleteWorkflow(
  { db }: { db: Pick<Database, 'transaction'> },
  projectId: string,
  key: string,
): Promise<boolean> {
  return db.transaction(async (tx) => {
    await tx.query(lockWorkflow, [`${projectId} ${key}`]);
    const deleted = await tx.query(removeWorkflow, [projectId, key]);
    if (deleted.length === 0) return false;
    await saveSchedules(tx, projectId, key, { triggers: [], nowMs: 0 });
    await saveTriggers(tx, projectId, key, []);
    await recordEvents(tx, [
      { projectId, type: 'workflow.deleted', details: { context: { workflow_key: key } } },
    ]);
    return true;
  });
}

// One at a time for each key: a version is the one before plus one.
const lockWorkflow = sql(
  'lock_workflow',
  "select pg_advisory_xact_lock(hashtextextended('workflow ' || $1, 0))",
);
// Primary keys.
const upsertWorkflow = sql(
  'save_workflow',
  `insert into workflows (project_id, key, version, disabled, size, triggers, created_at, updated_at)
  values ($1, $2, $3, $4, $6, $7, $5, $5)
  on conflict (project_id, key) do update
  set version = excluded.version, disabled = excluded.disabled, size = excluded.size,
    triggers = excluded.triggers, updated_at = excluded.updated_at`,
);
const removeWorkflow = sql(
  'delete_workflow',
  'delete from workflows where project_id = $1 and key = $2 returning key',
);
const measureOthers = sql(
  'measure_other_workflows',
  `select count(*)::int as count, coalesce(sum(size), 0)::int as size
  from workflows
  where project_id = $1 and key <> $2`,
);
