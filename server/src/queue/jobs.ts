/**
 * The kinds of jobs and their payloads: JSON with ids and numbers, never secrets. Only of an event that a
 * program has posted they have the content, because nothing else stores it.
 */
export interface JobPayloads {
  /**
   * Create the notifications and deliveries of a broadcast: for the first page of its users or, if `page` is
   * set, for a later page of the subscribers or of `everyone`, behind the user `after`. `created`: the event
   * `broadcast.created` is recorded; earlier releases left it to this job. `traceparent` is the W3C trace
   * context that the job continues, if one is recorded.
   */
  fan_out: {
    broadcast_id: string;
    created?: true;
    page?: number;
    after?: string | undefined;
    everyone?: true;
    traceparent?: string | undefined;
  };
  /**
   * Deliver a broadcast to these users over one channel. `attempt` counts the attempts before this one.
   * `progress` is, by user, what is left of started deliveries to devices, browsers and chats. `back` marks a
   * job that ran before: `waited` if it was only deferred to the opening of a delivery window, `begun` if it
   * ran in an open window, where its time to live started. `closed` and `waits_for` say what a deferred job
   * waits for; `woken` says that the latter has changed, so that its targets are due before their times.
   * `replay` is the number of replays when the job was
   * written: deliveries that were replayed later belong to another job. `awaited` marks first attempts,
   * without which the broadcast is not processed. `traceparent` as above: retries continue the same trace.
   */
  deliver: {
    broadcast_id: string;
    channel: string;
    user_ids: readonly string[];
    attempt: number;
    first_attempt_ms: number;
    back?: 'waited' | 'begun';
    closed?: 'outside_window' | 'quiet_hours';
    waits_for?: 'rate' | 'integration' | undefined;
    woken?: true;
    replay?: number | undefined;
    awaited?: true;
    traceparent?: string | undefined;
    progress?: Readonly<Record<string, Progress>>;
  };
  /**
   * Replay deliveries of a broadcast that had failed by `asked_at` (a time as the database writes it): the
   * next ones behind `after`, on one channel or on all.
   */
  replay: {
    broadcast_id: string;
    channel?: string | undefined;
    after: { user_id: string; channel: string };
    asked_at: string;
    text_weight: number;
  };
  /** Make the scheduled jobs of a cancelled broadcast due; in a second pass those that were written late. */
  cancel: { broadcast_id: string; second_pass?: true };
  /**
   * Make the deliveries of the project on this channel due that wait for an integration or its rate, because
   * one was saved; in a second pass those that were written late. `up_to` is the last job of this pass.
   */
  wake_waiting: { channel: string; up_to?: number; second_pass?: true };
  /**
   * Ask a provider for the delivery status of messages that it accepted at `sent_ms`, by its own ids. `round`
   * counts the requests so far, `failures` those of this round without a response.
   */
  poll_receipts: {
    integration_id: string;
    provider: string;
    sent_ms: number;
    round: number;
    failures: number;
    sent: readonly { id: string; broadcast_id: string; user_id: string; token_id: string }[];
  };
  /**
   * Send these events to a webhook. `attempt` counts the attempts before this one, `since_ms` is when the
   * first was due. `replay` marks a request to send them once more. The partition key is the webhook, so that
   * a slow webhook does not delay the others of its project.
   */
  send_webhook: {
    webhook_id: string;
    event_ids: readonly string[];
    attempt: number;
    since_ms: number;
    replay?: boolean;
  };
  /** Import a page of users, and enqueue the next one. `traceparent` as above. */
  import_users: { import_id: string; page: number; traceparent?: string | undefined };
  /** Continue a run of a workflow that is in this turn. `traceparent` as above. */
  run_workflow: { run_id: string; turn: number; traceparent?: string | undefined };
  /**
   * The same, where the next step waits for another host. `attempt` counts the attempts before this one. The
   * partition key is of the project and the host, so that a slow host does not delay requests to others.
   */
  call_workflow: { run_id: string; turn: number; attempt: number; traceparent?: string | undefined };
  /**
   * Continue those of these runs that are still in these turns, and whose condition accepts an event: the
   * posted one, or those of Belfry with these names in rows of events, each with the numbers of its events.
   */
  continue_workflows: WorkflowEvents & { runs: readonly (readonly [id: string, turn: number])[] };
  /** Start a run of a workflow by one of its schedules: that of this trigger, at this time. */
  start_workflow: { workflow_key: string; place: number; at_ms: number };
  /** Return a notification that is snoozed until this time to its inbox. */
  unsnooze: { user_id: string; notification_id: string; until_ms: number };
}

/** Events that continue runs. */
export type WorkflowEvents =
  | { posted: { name: string; user_id: string | null; value: Readonly<Record<string, unknown>> } }
  | { names: readonly string[]; rows: readonly { id: string; from: number; to: number }[] };

/** The progress of a delivery to several targets. */
export interface Progress {
  /** The unfinished targets by token id, each with the time of its next attempt in unix milliseconds. */
  left: Readonly<Record<string, number>>;
  /** The numbers of finished targets by outcome. */
  accepted: number;
  gone: number;
  failed: number;
  /** The providers' ids of the accepted messages, in order; missing if they returned none. */
  provider_ids?: readonly string[];
  /** By target: the integration that may have sent the last attempt, if it did not end well. */
  ambiguous?: Readonly<Record<string, string>>;
}

export type JobKind = keyof JobPayloads;

export const JOB_KINDS: readonly JobKind[] = [
  'fan_out',
  'deliver',
  'replay',
  'cancel',
  'wake_waiting',
  'poll_receipts',
  'send_webhook',
  'import_users',
  'run_workflow',
  'call_workflow',
  'continue_workflows',
  'start_workflow',
  'unsnooze',
];

/** The kinds whose jobs have a partition key. The queue is fair over projects in all others. */
export const PARTITIONED_KINDS: ReadonlySet<JobKind> = new Set<JobKind>(['send_webhook', 'call_workflow']);

/** A job as a worker has claimed it. */
export interface Job<Kind extends JobKind = JobKind> {
  id: number;
  kind: Kind;
  projectId: string;
  /** What the queue is fair over: the project, except for PARTITIONED_KINDS. */
  partitionKey: string;
  priority: number;
  /** How much work and memory it takes: its recipients, and an addition for long texts. */
  weight: number;
  /** How often it was started, including this time. If more than once, parts of it may be done already. */
  attempt: number;
  /** How many of these attempts have ended with their worker. */
  cutOffs: number;
  payload: JobPayloads[Kind];
}

/** A job to enqueue. */
export interface NewJob<Kind extends JobKind = JobKind> {
  kind: Kind;
  projectId: string;
  /** What the queue is fair over. For PARTITIONED_KINDS only. */
  partitionKey?: string;
  priority: number;
  weight: number;
  payload: JobPayloads[Kind];
  /** When it may run, in unix milliseconds. Default: immediately. */
  dueAtMs?: number | undefined;
}

// This much text weighs as much as a recipient, so that a batch has only one or two contents of 10 MiB.
const CHARACTERS_PER_RECIPIENT = 4_096;

/** The weight of the fan-out of a broadcast. */
export function fanOutWeight({ recipients, characters }: { recipients: number; characters: number }): number {
  return recipientsWeight(recipients) + Math.floor(characters / CHARACTERS_PER_RECIPIENT);
}

/** The part of that weight that comes from the recipients. */
export function recipientsWeight(recipients: number): number {
  return Math.max(recipients, 1);
}

/** Small work goes first: a message to one recipient never waits for a campaign of the same project. */
export function priorityFor(recipients: number): number {
  if (recipients <= 10) return 0;
  return recipients <= 100 ? 1 : BULK;
}

/** The priority of large work. */
export const BULK = 2;

/** What a process does: small work, bulk, or both. */
export type Work = 'both' | 'small' | 'bulk';

/** A range of priorities, both ends included. */
export type Priorities = readonly [lowest: number, highest: number];
export const ALL_PRIORITIES: Priorities = [0, 32_767];
export const SMALL_PRIORITIES: Priorities = [0, BULK - 1];
export const BULK_PRIORITIES: Priorities = [BULK, 32_767];
