import { type Static, type TSchema, Type } from 'typebox';
import { MAX_CONDITION_CHARACTERS } from '../lib/expression.ts';
import { NamedRecipient, NewBroadcastSchema, TITLE_OR_TEMPLATE } from './broadcast.ts';
import {
  described,
  EmailAddress,
  ExternalId,
  exampleId,
  exampleTime,
  FreeObject,
  given,
  Id,
  nullable,
  oneOf,
  page,
  pageQuery,
  readOnly,
  storedString,
  Timestamp,
} from './common.ts';
import { DISTURBING } from './delivery-windows.ts';
import { isEventType } from './event.ts';
import { TopicUser } from './topic.ts';
import { UpdateUser } from './user.ts';

/** The characters of a workflow's key. */
const KEY_PATTERN = '^[A-Za-z0-9_.\\-:]+$';
const MAX_WORKFLOW_KEY_CHARACTERS = 255;
/** The steps of a list; branches can contain further lists. */
const MAX_STEPS = 100;
/** The steps of a workflow, with those of its branches. */
export const MAX_STEPS_IN_ALL = 500;
/** How many lists of steps can contain each other. */
export const MAX_STEP_LEVELS = 5;
const MAX_BRANCHES = 20;
const MAX_TRIGGERS = 20;
/** The size of a workflow as JSON. */
export const MAX_WORKFLOW_BYTES = 256 * 1024;
/** The most runs that one request starts. */
export const MAX_STARTED_RUNS = 1_000;
/** The longest wait: 400 days, as for scheduled broadcasts. */
export const MAX_WAIT_SECONDS = 400 * 86_400;

/** The most characters of the data of a posted event, as JSON: each run that waits for it stores them. */
export const MAX_EVENT_DATA_CHARACTERS = 16 * 1024;

const KEY = new RegExp(KEY_PATTERN);

/** Whether a text can be the key of a workflow. */
export function isWorkflowKey(text: string): boolean {
  return text.length <= MAX_WORKFLOW_KEY_CHARACTERS && KEY.test(text);
}

const condition = (description: string) =>
  Type.Optional(nullable(Type.String({ maxLength: MAX_CONDITION_CHARACTERS, description })));

const workflowKey = (minLength: number) =>
  Type.String({
    minLength,
    maxLength: MAX_WORKFLOW_KEY_CHARACTERS,
    pattern: KEY_PATTERN,
    description: 'The key of the workflow.',
    examples: ['onboarding'],
  });

const WorkflowStep = Type.Object(
  {
    command: Type.String({
      pattern: '^[a-z_]+$',
      maxLength: 100,
      description:
        'What the step does: `broadcast`, `wait`, `wait_for`, `digest`, `throttle`, `pause`, `abort`, ' +
        '`branch`, `set`, `update_user` or `http`. A run fails at a step whose command does not exist.',
      examples: ['broadcast'],
    }),
    if: condition(
      'The step is skipped unless this condition holds: CEL over `input`, `user`, `steps`, `run` and ' +
        '`notification`.',
    ),
    input: Type.Optional(
      nullable(
        described(
          FreeObject,
          'The input of the command: see the schemas `Workflow…Input`. Every string is a Liquid template ' +
            'over the same data as conditions. A string that is a single output of a list or an object ' +
            'becomes that value.',
        ),
      ),
    ),
  },
  { title: 'WorkflowStep', additionalProperties: false },
);

const eventName = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: MAX_WORKFLOW_KEY_CHARACTERS,
    pattern: KEY_PATTERN,
    description,
    examples: ['order_paid'],
  });

const { external_id: _, email: __, ...details } = NamedRecipient.properties;

const RUN_USER_IDENTITIES = [given('id'), given('external_id'), given('email')];

/** The user of a run, in its input. */
export const RunUser = Type.Object(
  {
    id: Type.Optional(nullable(Id)),
    external_id: Type.Optional(nullable(ExternalId)),
    email: Type.Optional(nullable(EmailAddress)),
    ...details,
  },
  {
    title: 'WorkflowRunUser',
    additionalProperties: {},
    anyOf: RUN_USER_IDENTITIES,
    description:
      'The user of the run. `id` wins over `external_id`, and that over `email`. A user with an unknown ' +
      '`external_id` or `email` is created, as by a broadcast. An unknown `id` and a deleted user are ' +
      'rejected. The details replace stored values, as those of a recipient do. Further members are data ' +
      'for conditions and templates.',
  },
);

// Clients may have used `user` for anything, as any other member of the input.
const NoRunUser = Type.Unsafe<unknown>({
  type: ['object', 'array', 'string', 'number', 'boolean', 'null'],
  additionalProperties: {},
  items: {},
  not: { type: 'object', anyOf: RUN_USER_IDENTITIES },
  description: 'Data that names no user.',
});

const RunInput = Type.Object(
  { user: Type.Optional(Type.Unsafe<unknown>({ anyOf: [RunUser, NoRunUser] })) },
  {
    title: 'WorkflowRunData',
    additionalProperties: {},
    description:
      'Data for conditions and templates. The run has no user if `user` is missing, or has no `id`, ' +
      '`external_id` or `email`.',
  },
);

const WorkflowTrigger = Type.Object(
  {
    event: Type.Optional(
      eventName(
        'The name of an event of `POST /workflows/events`, of an integration ' +
          '(`integration.stripe.invoice.paid`), or of Belfry except for those of workflows. The `input` of ' +
          'the run is the event, and its user is that of the event.',
      ),
    ),
    if: Type.Optional(
      nullable(
        storedString({
          maxLength: MAX_CONDITION_CHARACTERS,
          description:
            'Only events for which this condition holds start a run: CEL over `event`. If it cannot be ' +
            'evaluated for an event, that event starts no run.',
        }),
      ),
    ),
    schedule: Type.Optional(
      storedString({
        maxLength: 100,
        description:
          'A cron expression: minute, hour, day of the month, month and day of the week, or a name such as ' +
          '`@daily`. At most once a minute. If a clock change skips a time of the day, its run starts at ' +
          'the end of the gap. If the time occurs twice, the run starts the first time. An hour that ' +
          'begins with `*` follows the clock instead: a run starts whenever the clock shows the time.',
        examples: ['0 9 * * 1'],
      }),
    ),
    time_zone: Type.Optional(
      Type.String({
        maxLength: 64,
        description: 'A time zone by its IANA name. Default: `UTC`.',
        examples: ['Europe/Berlin'],
      }),
    ),
    missed: Type.Optional(
      oneOf(['run_once', 'skip'], {
        description:
          'What follows if no server was running at the time: one run, however many were missed, or none. ' +
          'Default: `run_once`.',
      }),
    ),
    input: Type.Optional(described(RunInput, 'The `input` of a run that the schedule starts.')),
  },
  {
    title: 'WorkflowTrigger',
    additionalProperties: false,
    description: 'Either an `event` (and `if`), or a `schedule` (and `time_zone`, `missed`, `input`).',
    examples: [{ schedule: '0 9 * * 1', time_zone: 'Europe/Berlin' }],
  },
);
export type WorkflowTrigger = Static<typeof WorkflowTrigger>;

const workflowVersion = Type.Integer({ description: 'Counts the changes of the steps, from 1.' });

/** The body of `PUT /workflows`. */
export const NewWorkflow = Type.Object(
  {
    key: workflowKey(3),
    disabled: Type.Optional(
      Type.Boolean({ description: 'Starts no runs. Runs that have started continue.' }),
    ),
    triggers: Type.Optional(
      Type.Array(WorkflowTrigger, { maxItems: MAX_TRIGGERS, description: 'When runs start by themselves.' }),
    ),
    steps: Type.Array(WorkflowStep, { maxItems: MAX_STEPS }),
    version: Type.Optional(readOnly(workflowVersion)),
    created_at: Type.Optional(readOnly(Timestamp)),
    updated_at: Type.Optional(readOnly(Timestamp)),
  },
  {
    title: 'WorkflowInput',
    additionalProperties: false,
    examples: [
      {
        key: 'onboarding',
        steps: [
          { command: 'broadcast', input: { title: 'Welcome, {{ user.first_name }}' } },
          { command: 'wait', input: { duration: 86_400 } },
          {
            command: 'broadcast',
            if: 'notification.unseen',
            input: { title: 'Have you seen our guide?' },
          },
        ],
      },
    ],
  },
);
export type NewWorkflow = Static<typeof NewWorkflow>;

export const Workflow = Type.Object(
  {
    ...NewWorkflow.properties,
    version: workflowVersion,
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { title: 'Workflow' },
);

export const WorkflowList = Type.Object({ items: Type.Array(Workflow) }, { title: 'WorkflowList' });

const version = { version: Type.Integer(), created_at: Timestamp };
const WorkflowVersionRecord = Type.Object(version, { title: 'WorkflowVersionRecord' });
export const WorkflowVersion = Type.Object(
  { ...version, steps: Type.Array(WorkflowStep) },
  { title: 'WorkflowVersion' },
);
export const WorkflowVersionList = Type.Object(
  { items: Type.Array(WorkflowVersionRecord, { description: 'The newest 100, newest first.' }) },
  { title: 'WorkflowVersionList' },
);

/** The states of runs, as published clients number them. */
export const RUN_STATES = {
  enqueued: 0,
  running: 1,
  waiting: 2,
  completed: 3,
  aborted: 4,
  failed: 5,
} as const;
export type RunState = (typeof RUN_STATES)[keyof typeof RUN_STATES];

const RunStatus = Type.Object(
  {
    state: Type.Integer({
      minimum: 0,
      maximum: 5,
      description: '0 enqueued, 1 running, 2 waiting, 3 completed, 4 aborted, 5 failed.',
    }),
    next_step: Type.Optional(Type.Integer({ description: 'The index of the next step.' })),
    started_at: Type.Optional(Timestamp),
    completed_at: Type.Optional(described(Timestamp, 'When the run completed, failed or was aborted.')),
    error: Type.Optional(Type.String({ description: 'Why the run failed or was aborted.' })),
  },
  { title: 'WorkflowRunStatus' },
);

const run = {
  id: Id,
  workflow_key: Type.String(),
  version: Type.Integer({ description: 'The version of the workflow that the run executes.' }),
  user_id: Type.Optional(described(Id, 'The user of the run.')),
  status: RunStatus,
  created_at: Timestamp,
};

export const RunStep = Type.Object(
  {
    place: Type.String({
      description: 'The index of the step. In a branch: `3.0.2` is step 2 of branch 0 of step 3.',
    }),
    command: Type.String(),
    state: Type.String({
      enum: ['completed', 'skipped', 'waiting', 'failed', 'aborted'],
      description: '`skipped`: its condition did not hold. `aborted`: the run was cancelled while it waited.',
    }),
    started_at: Timestamp,
    completed_at: Type.Optional(Timestamp),
    output: Type.Optional(described(FreeObject, 'What later steps find in `steps[i].output`.')),
    error: Type.Optional(Type.String()),
  },
  { title: 'WorkflowRunStep' },
);
export type RunStep = Static<typeof RunStep>;

const WorkflowRunRecord = Type.Object(run, { title: 'WorkflowRunRecord' });

export const WorkflowRun = Type.Object(
  {
    ...run,
    input: FreeObject,
    steps: Type.Array(RunStep, { description: 'The steps that have begun, in their order.' }),
  },
  {
    title: 'WorkflowRun',
    examples: [
      {
        id: exampleId,
        workflow_key: 'onboarding',
        version: 1,
        status: { state: 2, next_step: 1, started_at: exampleTime },
        created_at: exampleTime,
        input: { user: { external_id: '42' } },
        steps: [
          {
            place: '0',
            command: 'broadcast',
            state: 'completed',
            started_at: exampleTime,
            completed_at: exampleTime,
            output: { id: exampleId },
          },
          { place: '1', command: 'wait', state: 'waiting', started_at: exampleTime },
        ],
      },
    ],
  },
);

export const WorkflowRunPage = page(WorkflowRunRecord);

export const RunListQuery = Type.Object({
  ...pageQuery,
  state: Type.Optional(Type.Integer({ minimum: 0, maximum: 5, description: 'Only runs in this state.' })),
});

export const StartRun = Type.Object(
  { key: workflowKey(1), input: Type.Optional(nullable(RunInput)) },
  {
    title: 'WorkflowRunInput',
    additionalProperties: false,
    examples: [{ key: 'onboarding', input: { user: { external_id: '42' }, plan: 'pro' } }],
  },
);

export const StartedRun = Type.Object({ id: Id }, { title: 'StartedWorkflowRun' });

export const StartRuns = Type.Object(
  { key: workflowKey(1), inputs: Type.Array(RunInput, { minItems: 1, maxItems: MAX_STARTED_RUNS }) },
  {
    title: 'WorkflowRunsInput',
    additionalProperties: false,
    examples: [
      { key: 'onboarding', inputs: [{ user: { external_id: '42' } }, { user: { external_id: '43' } }] },
    ],
  },
);

export const StartedRuns = Type.Object(
  { ids: Type.Array(Id, { description: 'The ids of the runs, in the order of `inputs`.' }) },
  { title: 'StartedWorkflowRuns' },
);

/** The body of `POST /workflows/events`. */
export const NewWorkflowEvent = Type.Object(
  {
    name: eventName('The name of the event. It cannot be that of an event of Belfry.'),
    user: Type.Optional(nullable(described(TopicUser, 'The user of the event.'))),
    data: Type.Optional(
      nullable(
        described(FreeObject, `At most ${MAX_EVENT_DATA_CHARACTERS} characters of JSON: \`event.data\`.`),
      ),
    ),
  },
  {
    title: 'WorkflowEventInput',
    additionalProperties: false,
    examples: [{ name: 'order_paid', user: { external_id: '42' }, data: { order: 1042 } }],
  },
);
export type NewWorkflowEvent = Static<typeof NewWorkflowEvent>;

/** Whether Belfry records the events of this name, so that they cannot be posted. */
export function isOwnEvent(name: string): boolean {
  return isEventType(name) || name.startsWith('integration.');
}

export const PostedWorkflowEvent = Type.Object(
  {
    continued: Type.Integer({
      minimum: 0,
      description:
        'How many runs waited for the event. If more than 2,000 have a matching name and user, the others ' +
        'are continued soon after, and counted before their conditions are evaluated.',
    }),
    started: Type.Integer({ minimum: 0, description: 'How many runs it started.' }),
  },
  { title: 'PostedWorkflowEvent' },
);

export const RunInPath = Type.Object({ run_id: described(Id, 'The id of the run.') });
export const WorkflowInPath = Type.Object({
  workflow_key: Type.String({ description: 'The key of the workflow.', examples: ['onboarding'] }),
});

/* The inputs of the commands, after their templates were rendered. */

const { recipients, ...broadcastMembers } = NewBroadcastSchema.properties;

const BroadcastInput = Type.Object(
  { ...broadcastMembers, recipients: Type.Optional(recipients) },
  {
    title: 'WorkflowBroadcastInput',
    additionalProperties: false,
    ...TITLE_OR_TEMPLATE,
    description:
      'A broadcast, as in `POST /broadcasts`. Without `recipients` it is sent to the user of the run. Its ' +
      'output is `{id}`, the id of the broadcast. A run sends it once, whatever happens to the server.',
  },
);

const WaitInput = Type.Object(
  {
    duration: Type.Optional(
      Type.Integer({ minimum: 0, maximum: MAX_WAIT_SECONDS, description: 'In seconds, at most 400 days.' }),
    ),
    until: Type.Optional(
      Type.String({ format: 'date-time', description: 'A time within the next 400 days, or in the past.' }),
    ),
    delivery_window: Type.Optional(
      Type.Object(
        { channel: oneOf(DISTURBING), category: broadcastMembers.category },
        {
          title: 'WorkflowWaitForWindow',
          additionalProperties: false,
          description:
            'Until the delivery window of the user opens for this channel, as for a broadcast of the ' +
            'category. No time if it is open.',
        },
      ),
    ),
  },
  {
    title: 'WorkflowWaitInput',
    additionalProperties: false,
    minProperties: 1,
    maxProperties: 1,
    'x-problem': 'needs either a duration, an until or a delivery_window',
    description: 'How long the run waits: either `duration`, `until` or `delivery_window`.',
  },
);

const WaitForInput = Type.Object(
  {
    event: eventName('The name of the event.'),
    timeout: Type.Integer({
      minimum: 1,
      maximum: MAX_WAIT_SECONDS,
      description: 'How long the run waits at most: in seconds, at most 400 days.',
    }),
    if: condition(
      'Only an event for which this condition holds continues the run: CEL over `event`, `input`, `user`, ' +
        '`steps`, `run` and `notification`. If it cannot be evaluated for an event, that event does not ' +
        'continue the run.',
    ),
  },
  {
    title: 'WorkflowWaitForInput',
    additionalProperties: false,
    description:
      'The run waits for an event of `POST /workflows/events`, of an integration ' +
      '(`integration.stripe.invoice.paid`) or of Belfry, such as `notification.seen`. If both the run and ' +
      'the event have a user, it must be the same; if the run has sent a broadcast, an event of a ' +
      'notification must be of the last one. The output is `{event}` or, if none came in time, ' +
      '`{timed_out: true}`.',
  },
);

const PauseInput = Type.Object(
  {},
  {
    title: 'WorkflowPauseInput',
    additionalProperties: {},
    description: 'The run waits for `POST /workflows/runs/{run_id}/resume`. The members are up to you.',
  },
);

const AbortInput = Type.Object(
  { reason: Type.Optional(storedString({ maxLength: 1_000, description: 'For `status.error`.' })) },
  { title: 'WorkflowAbortInput', additionalProperties: false, description: 'Ends the run as aborted.' },
);

const BranchInput = Type.Object(
  {
    branches: Type.Array(
      Type.Object(
        {
          if: condition('The condition of the branch. Without one, it always holds.'),
          steps: Type.Array(WorkflowStep, { maxItems: MAX_STEPS }),
        },
        { title: 'WorkflowBranch', additionalProperties: false },
      ),
      { minItems: 1, maxItems: MAX_BRANCHES },
    ),
  },
  {
    title: 'WorkflowBranchInput',
    additionalProperties: false,
    description:
      'Executes the steps of the first branch whose condition holds, and then the step after this one. The ' +
      'output is `{branch}`, the index of the branch, or `null` if none holds. Conditions see the nested ' +
      'steps as `steps[3].steps[0]`.',
  },
);

const SetInput = Type.Object(
  {},
  {
    title: 'WorkflowSetInput',
    additionalProperties: {},
    description: 'Values that later steps find in `run.data`. A member replaces an earlier one of its name.',
  },
);

const UpdateUserInput = Type.Object(UpdateUser.properties, {
  title: 'WorkflowUpdateUserInput',
  additionalProperties: false,
  description: 'Changes of the user of the run, as in `PATCH /users/{user_id}`.',
});

const HttpInput = Type.Object(
  {
    url: Type.String({
      maxLength: 2_048,
      format: 'uri',
      description:
        'A public address that begins with https:// or http://. A private one is rejected when the ' +
        'workflow is saved or, if a template makes it, when the request is sent.',
    }),
    method: Type.Optional(
      Type.String({ enum: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'], description: 'Default: `POST`.' }),
    ),
    headers: Type.Optional(
      Type.Unsafe<Record<string, string>>({
        type: 'object',
        maxProperties: 50,
        propertyNames: { pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$" },
        additionalProperties: { type: 'string', maxLength: 4_096, pattern: '^[\\t -~]*$' },
      }),
    ),
    body: Type.Optional(Type.Unknown({ description: 'Sent as JSON; a string is sent as it is.' })),
    retries: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 10,
        description:
          'Attempts after the first if there is no response within 30 s, or a 408, 429 or 5xx. ' +
          '`Retry-After` is respected, up to an hour. Default: 3.',
      }),
    ),
  },
  {
    title: 'WorkflowHttpInput',
    additionalProperties: false,
    description:
      'Sends a request to a public address, at least once. The output is `{status, body}`: the body is ' +
      'parsed if it is JSON. A body of more than 16 KiB is cut and stays a text, and the output has ' +
      '`truncated: true`. If it is JSON and the workflow reads a `body` of `steps`, the run fails. A ' +
      'response other than 2xx fails the run.',
  },
);

const seconds = (description: string) =>
  Type.Integer({ minimum: 1, maximum: MAX_WAIT_SECONDS, description: `${description} In seconds.` });
const sharedKey = (description: string) =>
  Type.Optional(storedString({ minLength: 1, maxLength: 255, description }));

const DigestInput = Type.Object(
  {
    window: seconds('How long the digest is open.'),
    max_window: Type.Optional(
      seconds(
        'Makes the window slide: each run that joins keeps the digest open for another `window`, until ' +
          'this long after the first.',
      ),
    ),
    key: sharedKey('Only runs with the same key share a digest, such as `{{ input.document_id }}`.'),
  },
  {
    title: 'WorkflowDigestInput',
    additionalProperties: false,
    description:
      'Collects the runs that come to this step with the same user, key and version of the workflow. The ' +
      'first one waits until the window closes, and continues with the output `{items, count}`: the inputs ' +
      'of all, in the order in which they started. The others end as completed, with the output ' +
      '`{digest}`, the id of the first. `items` has at most 1,000 inputs with 256 KiB in all; `count` ' +
      'counts all. Cancelling the first run drops the digest.',
  },
);

const ThrottleInput = Type.Object(
  {
    limit: Type.Integer({ minimum: 1, maximum: 1_000, description: 'How many runs pass within `window`.' }),
    window: seconds('The time before now in which runs are counted.'),
    key: sharedKey('Counts runs with the same key, over all users. By default each user is counted alone.'),
  },
  {
    title: 'WorkflowThrottleInput',
    additionalProperties: false,
    description:
      'At most `limit` runs pass in any `window`. The others end as aborted, with the reason in ' +
      '`status.error`.',
  },
);

/** The inputs of the commands, by command. */
export const COMMAND_INPUTS: Readonly<Record<string, TSchema>> = {
  broadcast: BroadcastInput,
  wait: WaitInput,
  wait_for: WaitForInput,
  pause: PauseInput,
  abort: AbortInput,
  branch: BranchInput,
  set: SetInput,
  update_user: UpdateUserInput,
  http: HttpInput,
  digest: DigestInput,
  throttle: ThrottleInput,
};
