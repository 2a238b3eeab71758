import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { bothDirections, type ListStatements } from '../../../db/list-statements.ts';
import { type Cursor, NEWEST, OLDEST } from '../../../lib/cursor.ts';
import { writeJson } from '../../../lib/exact-numbers.ts';
import { unpackJson } from '../../../lib/packed-json.ts';
import { comparePlaces } from '../definitions/places.ts';
import { loadCollected } from './digests.ts';
import { RUN_COLUMNS, type RunRow, runRecord, type StepRow, stepRecord } from './row.ts';

/** Returns a run of the project with its input and its steps, as JSON text; undefined if there is none. */
export async function getRun(db: Queryable, projectId: string, id: string): Promise<string | undefined> {
  const rows = await db.query<RunWithInput>(selectRun, [id, projectId]);
  const [run] = await withSteps(db, rows);
  return run?.text;
}

/**
 * Returns up to `limit` runs of a user behind the id `after`, in order, each as the same text. One that waits
 * for its digest has the inputs that it has collected as well.
 */
export async function runsOfUser(
  db: Queryable,
  userId: string,
  { after, limit }: { after: string; limit: number },
): Promise<{ id: string; text: string }[]> {
  const runs = await withSteps(db, await db.query<RunWithInput>(selectRunsOfUser, [userId, after, limit]));
  const collected = await loadCollected(
    db,
    runs.map(({ id }) => id),
  );
  return runs.map(({ id, text }) => {
    const inputs = collected.get(id);
    return { id, text: inputs === undefined ? text : `${text.slice(0, -1)},"collected":[${inputs}]}` };
  });
}

type RunWithInput = RunRow & { input: Buffer };

async function withSteps(
  db: Queryable,
  runs: readonly RunWithInput[],
): Promise<{ id: string; text: string }[]> {
  const stepsOf = await loadSteps(db, runs);
  return runs.map(({ input, ...run }) => {
    const steps = (stepsOf.get(run.id) ?? []).sort((a, b) => comparePlaces(a.place, b.place));
    const text = writeJson({ ...runRecord(run), steps: steps.map(stepRecord) });
    return { id: run.id, text: `${text.slice(0, -1)},"input":${unpackJson(input)}}` };
  });
}

/** Loads the steps of runs, by the id of the run. */
export async function loadSteps(
  db: Queryable,
  runs: readonly { id: string }[],
): Promise<Map<string, StepRow[]>> {
  if (runs.length === 0) return new Map();
  const rows = await db.query<StepRow & { run_id: string }>(selectSteps, [
    uuidArray(runs.map(({ id }) => id)),
  ]);
  return Map.groupBy(rows, (row) => row.run_id);
}

/** Returns up to `limit` runs of a workflow beyond the cursor, nearest first: all, or those in a state. */
export function listRuns(
  db: Queryable,
  projectId: string,
  { key, state }: { key: string; state?: number | undefined },
  { direction, id, limit }: Cursor,
): Promise<RunRow[]> {
  return state === undefined
    ? db.query<RunRow>(LIST[direction], [projectId, id, limit, key])
    : db.query<RunRow>(LIST_BY_STATE[direction], [projectId, id, limit, key, state]);
}

// Primary keys.
const selectRun = sql(
  'get_workflow_run',
  `select ${RUN_COLUMNS}, input from workflow_runs where id = $1 and project_id = $2`,
);
const selectSteps = sql(
  'workflow_run_steps',
  `select run_id, place, command, state, started_at, completed_at, output::text as output, error
  from workflow_run_steps
  where run_id = any ($1::uuid[])`,
);
// Index workflow_runs_of_user.
const selectRunsOfUser = sql(
  'workflow_runs_of_user',
  `select ${RUN_COLUMNS}, input
  from workflow_runs
  where user_id = $1 and id > $2
  order by id
  limit $3`,
);
// Indexes workflow_runs_listed and workflow_runs_by_state. Rows are compared, because otherwise the planner
// may take the primary key for the order, and read through the runs of others.
const LIST = lists('workflow_runs', 'project_id, workflow_key, id', ['$1', '$4']);
const LIST_BY_STATE = lists('workflow_runs_by_state', 'project_id, workflow_key, state, id', [
  '$1',
  '$4',
  '$5',
]);

function lists(name: string, columns: string, owner: readonly string[]): ListStatements {
  return bothDirections(name, (beyond, order) => {
    const end = order === 'desc' ? `>= (${[...owner, `'${OLDEST}'`]})` : `<= (${[...owner, `'${NEWEST}'`]})`;
    return `select ${RUN_COLUMNS}
  from workflow_runs
  where (${columns}) ${beyond} (${[...owner, '$2']}) and (${columns}) ${end}
  order by ${columns.replace(/\w+/g, `$& ${order}`)}
  limit $3`;
  });
}
