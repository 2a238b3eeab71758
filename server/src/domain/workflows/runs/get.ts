import { type Queryable, sql } from '../../../db/client.ts';
import { bothDirections, type ListStatements } from '../../../db/list-statements.ts';
import { type Cursor, NEWEST, OLDEST } from '../../../lib/cursor.ts';
import { unpackJson } from '../../../lib/packed-json.ts';
import { comparePlaces } from '../definitions/places.ts';
import { RUN_COLUMNS, type RunRow, runRecord, type StepRow, stepRecord } from './row.ts';

/** Returns a run of the project with its input and its steps, as JSON text; undefined if there is none. */
export async function getRun(db: Queryable, projectId: string, id: string): Promise<string | undefined> {
  const [row] = await db.query<RunRow & { input: Buffer }>(selectRun, [id, projectId]);
  if (row === undefined) return undefined;
  const steps = await db.query<StepRow>(selectSteps, [id]);
  steps.sort((a, b) => comparePlaces(a.place, b.place));
  const { input, ...run } = row;
  const text = JSON.stringify({ ...runRecord(run), steps: steps.map(stepRecord) });
  return `${text.slice(0, -1)},"input":${unpackJson(input)}}`;
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
  `select place, command, state, started_at, completed_at, output::text as output, error
  from workflow_run_steps
  where run_id = $1`,
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
