import { RUN_STATES, type RunState, type RunStep } from '../contract/workflow.ts';
import { isId } from '../lib/ids.ts';
import { isNotFound, projectTarget, request, type ServerOptions, type Target } from './api.ts';
import { CommandError, UsageError } from './command.ts';
import { print, printJson, printMembers, printTable } from './output.ts';

/** The members of a run that the command line shows. */
export interface Run {
  id: string;
  workflow_key: string;
  version: number;
  user_id?: string;
  created_at: string;
  status: { state: RunState; started_at?: string; completed_at?: string; error?: string };
  steps: RunStep[];
}

/** The name of a state. */
export function stateName(state: RunState): string {
  return Object.entries(RUN_STATES).find(([, number]) => number === state)?.[0] ?? String(state);
}

/** Reads a run. Throws a `CommandError` if the project does not have it. */
export async function readRun(target: Target, id: string): Promise<Run> {
  const response = await request(target, `/workflows/runs/${id}`).catch((error: unknown) => {
    if (!isNotFound(error)) throw error;
    throw new CommandError(`there is no run ${id} in the project: belfry workflow run prints the id`);
  });
  return (await response.json()) as Run;
}

export interface ListOptions extends ServerOptions {
  state?: keyof typeof RUN_STATES;
  limit: number;
  json?: boolean;
}

/** `belfry workflow runs`: lists the newest runs of a workflow. */
export async function listRunsCommand(key: string, options: ListOptions): Promise<void> {
  const { state, limit, json } = options;
  const ofState = state === undefined ? '' : `&state=${RUN_STATES[state]}`;
  const path = `/workflows/${encodeURIComponent(key)}/runs?limit=${limit}${ofState}`;
  const target = projectTarget(options);
  const { data } = (await (await request(target, path)).json()) as { data: Run[] };
  if (data.length === 0) await refuseUnknown(target, key);
  if (json) return printJson(data);
  printTable(
    data.map(({ id, version, created_at, status }) => ({
      id,
      state: stateName(status.state),
      version: String(version),
      created: created_at,
      error: status.error ?? '',
    })),
    'no runs',
  );
}

/** Throws a `CommandError` unless the project has or had a workflow with this key. */
async function refuseUnknown(target: Target, key: string): Promise<void> {
  await request(target, `/workflows/${encodeURIComponent(key)}/versions`).catch((error: unknown) => {
    if (!isNotFound(error)) throw error;
    throw new CommandError(`there is no workflow ${key} in the project: belfry workflow push saves one`);
  });
}

/** `belfry workflow runs show`: shows a run with its steps. */
export async function showRunCommand(
  id: string,
  { json, ...options }: ServerOptions & { json?: boolean },
): Promise<void> {
  if (!isId(id)) throw new UsageError(`${id} is not the id of a run: belfry workflow run prints it`);
  const run = await readRun(projectTarget(options), id);
  if (json) return printJson(run);
  const { state, error, started_at, completed_at } = run.status;
  printMembers({
    run: run.id,
    workflow: `${run.workflow_key}, version ${run.version}`,
    user: run.user_id,
    state: stateName(state),
    error,
    created: run.created_at,
    started: started_at,
    ended: completed_at,
  });
  print('');
  printTable(
    run.steps.map(({ place, command, state: ofStep, completed_at: ended = '-', error: ofError = '' }) => ({
      step: place,
      command,
      state: ofStep,
      ended,
      error: ofError,
    })),
    'no steps',
  );
}
