import { Type } from 'typebox';
import { NoContent } from '../../contract/common.ts';
import {
  isWorkflowKey,
  MAX_STARTED_RUNS,
  MAX_WORKFLOW_BYTES,
  NewWorkflow,
  NewWorkflowEvent,
  PostedWorkflowEvent,
  RunInPath,
  RunListQuery,
  StartedRun,
  StartedRuns,
  StartRun,
  StartRuns,
  Workflow,
  WorkflowInPath,
  WorkflowList,
  WorkflowRun,
  WorkflowRunPage,
  WorkflowVersion,
  WorkflowVersionList,
} from '../../contract/workflow.ts';
import {
  getWorkflow,
  listWorkflows,
  versionJson,
  workflowJson,
  workflowVersions,
} from '../../domain/workflows/definitions/get.ts';
import {
  deleteWorkflow,
  problemsOnServer,
  restoreVersion,
  saveWorkflow,
} from '../../domain/workflows/definitions/save.ts';
import { cancelRun, rerunFailed, resumeRun } from '../../domain/workflows/runs/change.ts';
import { getRun, listRuns } from '../../domain/workflows/runs/get.ts';
import { runRecord } from '../../domain/workflows/runs/row.ts';
import { startRuns } from '../../domain/workflows/runs/start.ts';
import { eventProblems, postEvent } from '../../domain/workflows/triggers/post-event.ts';
import { ClientError } from '../../errors.ts';
import { found } from '../found.ts';
import { versionIn } from '../in-path.ts';
import { type RawJson, rawJson, rawPage } from '../reply.ts';
import { type App, type Call, projectRoute } from '../route.ts';

const tags: [string] = ['Workflows'];

const VersionInPath = Type.Object({
  ...WorkflowInPath.properties,
  version: Type.String({ description: 'The number of the version.', examples: ['1'] }),
});

/** Registers `/workflows`: workflows and their runs. */
export function workflowRoutes(app: App): void {
  definitionRoutes(app);
  runRoutes(app);
  eventRoute(app);
}

function definitionRoutes(app: App): void {
  projectRoute(app, {
    method: 'PUT',
    url: '/workflows',
    operationId: 'saveWorkflow',
    summary: 'Save a workflow',
    description:
      'Creates the workflow with this `key`, or replaces its steps. Runs that have started keep the ' +
      'version of the steps that they started with. Conditions, templates and the inputs of commands are ' +
      'checked; values that a template makes are checked when a run renders them. A command that does not ' +
      'exist is accepted, and a run fails when it comes to it.',
    tags,
    body: NewWorkflow,
    bodyLimit: MAX_WORKFLOW_BYTES,
    alsoWrong: ({ body }) => problemsOnServer(app.context, body),
    reply: { 200: Workflow },
    handler: async ({ project, body, context }) =>
      rawJson(workflowJson(await saveWorkflow(context, project.id, body))),
  });

  projectRoute(app, {
    method: 'GET',
    url: '/workflows',
    operationId: 'listWorkflows',
    summary: 'List the workflows in alphabetical order',
    description: 'Returns all of them: at most 1,000, with 16 MiB of steps.',
    tags,
    reply: { 200: WorkflowList },
    async handler({ project, context }) {
      const items = await listWorkflows(context.db, project.id);
      return rawJson(`{"items":[${items.map(workflowJson).join(',')}]}`);
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/workflows/:workflow_key',
    operationId: 'getWorkflow',
    summary: 'Get a workflow',
    description: 'Returns the newest version of its steps.',
    tags,
    params: WorkflowInPath,
    reply: { 200: Workflow },
    async handler({ project, params, context }) {
      const workflow = found(await getWorkflow(context.db, project.id, keyIn(params)));
      return rawJson(workflowJson(workflow));
    },
  });

  projectRoute(app, {
    method: 'DELETE',
    url: '/workflows/:workflow_key',
    operationId: 'deleteWorkflow',
    summary: 'Delete a workflow',
    description: 'Its runs continue. If it is created again, its version numbers continue.',
    tags,
    params: WorkflowInPath,
    reply: { 204: NoContent },
    async handler({ project, params, context }) {
      if (!(await deleteWorkflow(context, project.id, keyIn(params)))) throw new ClientError('not_found');
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/workflows/:workflow_key/versions',
    operationId: 'listWorkflowVersions',
    summary: 'List the versions of a workflow',
    description:
      'Returns the newest 100 versions without their steps, newest first, also of a workflow that was ' +
      'deleted.',
    tags,
    params: WorkflowInPath,
    reply: { 200: WorkflowVersionList },
    async handler({ project, params, context }) {
      const versions = await workflowVersions.list(context.db, project.id, keyIn(params));
      if (versions.length === 0) throw new ClientError('not_found');
      return { items: versions.map((one) => ({ ...one, created_at: one.created_at.toISOString() })) };
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/workflows/:workflow_key/versions/:version',
    operationId: 'getWorkflowVersion',
    summary: 'Get a version of a workflow with its steps',
    description: 'Returns any version, also of a workflow that was deleted.',
    tags,
    params: VersionInPath,
    reply: { 200: WorkflowVersion },
    async handler({ project, params, context }) {
      const version = found(
        await workflowVersions.get(context.db, project.id, keyIn(params), versionIn(params)),
      );
      return rawJson(versionJson(version));
    },
  });

  projectRoute(app, {
    method: 'POST',
    url: '/workflows/:workflow_key/versions/:version/restore',
    operationId: 'restoreWorkflowVersion',
    summary: 'Restore a version of a workflow',
    description: 'Saves the steps of the version again, as the newest version.',
    tags,
    params: VersionInPath,
    reply: { 200: Workflow },
    idempotency: 'claimed',
    async handler({ project, params, context }) {
      const workflow = found(await restoreVersion(context, project.id, keyIn(params), versionIn(params)));
      return rawJson(workflowJson(workflow));
    },
  });
}

function runRoutes(app: App): void {
  projectRoute(app, {
    method: 'POST',
    url: '/workflows/runs',
    operationId: 'startWorkflowRun',
    summary: 'Start a run of a workflow',
    description:
      'The run executes the steps of the workflow one after the other. It continues after every crash of ' +
      'the server where it was.',
    tags,
    body: StartRun,
    reply: { 200: StartedRun },
    errors: ['not_found'],
    idempotency: 'own',
    async handler({ project, body: { key, input }, context, idempotencyKey: idempotency, reply }) {
      const run = { key, input: input ?? {}, idempotency };
      const started = await context.runStarter.start(project.id, run);
      if (started.replayed) reply.header('idempotency-replayed', 'true');
      if ('error' in started) throw started.error;
      return { id: started.id };
    },
  });

  projectRoute(app, {
    method: 'POST',
    url: '/workflows/runs/bulk',
    operationId: 'startWorkflowRuns',
    summary: `Start up to ${MAX_STARTED_RUNS} runs of a workflow`,
    description: 'Starts a run for each of the inputs: all of them, or none if the request is rejected.',
    tags,
    body: StartRuns,
    longArray: 'inputs',
    reply: { 200: StartedRuns },
    errors: ['not_found'],
    async handler({ project, body, context }) {
      const ids = await startRuns(context, project.id, body.key, body.inputs);
      context.wake('run_workflow');
      return { ids };
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/workflows/runs/:run_id',
    operationId: 'getWorkflowRun',
    summary: 'Get a run with its input and its steps',
    description: 'Runs that have ended are deleted as events are, after `EVENTS_RETENTION_DAYS`.',
    tags,
    params: RunInPath,
    reply: { 200: WorkflowRun },
    handler: async ({ project, params, context }) => runJson(context, project.id, params.run_id),
  });

  projectRoute(app, {
    method: 'GET',
    url: '/workflows/:workflow_key/runs',
    operationId: 'listWorkflowRuns',
    summary: 'List the runs of a workflow, newest first',
    description: 'Returns the runs without their input and steps, also of a workflow that was deleted.',
    tags,
    params: WorkflowInPath,
    query: RunListQuery,
    reply: { 200: WorkflowRunPage },
    async handler({ project, params, query, paginate, context }) {
      const of = { key: keyIn(params), state: query.state };
      const list = await paginate(
        query,
        (cursor) => listRuns(context.db, project.id, of, cursor),
        (row) => JSON.stringify(runRecord(row)),
      );
      return rawPage(list);
    },
  });

  for (const { action, operationId, summary, description, change } of CHANGES)
    projectRoute(app, {
      method: 'POST',
      url: `/workflows/runs/:run_id/${action}`,
      operationId,
      summary,
      description,
      tags,
      params: RunInPath,
      reply: { 200: WorkflowRun },
      errors: ['validation_failed'],
      async handler({ project, params, context }) {
        await change(context, project.id, params.run_id);
        context.wake('run_workflow');
        return runJson(context, project.id, params.run_id);
      },
    });
}

function eventRoute(app: App): void {
  projectRoute(app, {
    method: 'POST',
    url: '/workflows/events',
    besideRecords: true,
    operationId: 'postWorkflowEvent',
    summary: 'Post an event that continues and starts runs',
    description:
      'Continues the runs that wait for the event with `wait_for`, and starts a run of each workflow with ' +
      'a trigger for it. If both a waiting run and the event have a user, it must be the same. The event ' +
      'is not kept: runs that begin to wait later do not see it.',
    tags,
    body: NewWorkflowEvent,
    alsoWrong: ({ body }) => eventProblems(body),
    reply: { 200: PostedWorkflowEvent },
    handler: ({ project, body, context }) => postEvent(context, project.id, body),
  });
}

const CHANGES = [
  {
    action: 'cancel',
    operationId: 'cancelWorkflowRun',
    summary: 'Cancel a run',
    description: 'Ends the run as aborted. A step that is executed meanwhile is not undone.',
    change: cancelRun,
  },
  {
    action: 'resume',
    operationId: 'resumeWorkflowRun',
    summary: 'Resume a paused run',
    description: 'Continues a run that waits at a `pause`.',
    change: resumeRun,
  },
  {
    action: 'rerun',
    operationId: 'rerunWorkflowRun',
    summary: 'Continue a failed run',
    description: 'Continues a run that failed, with the step that failed.',
    change: rerunFailed,
  },
];

/** The key in the path. No workflow has one with other characters. */
function keyIn({ workflow_key: key }: { workflow_key: string }): string {
  if (!isWorkflowKey(key)) throw new ClientError('not_found');
  return key;
}

type CallContext = Call<unknown, unknown, unknown>['context'];

async function runJson({ db }: CallContext, projectId: string, id: string): Promise<RawJson> {
  const run = found(await getRun(db, projectId, id));
  return rawJson(run);
}
