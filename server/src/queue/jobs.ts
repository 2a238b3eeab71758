/**
 * What jobs there are, and what each is told. A job's payload is JSON: ids and numbers, never content or
 * secrets.
 */
export interface JobPayloads {
  /**
   * Turn a broadcast into notifications and deliveries: the first page of its users or, where `page` says so,
   * a later one, which has the subscribers behind the user `after`.
   */
  fan_out: { broadcast_id: string; page?: number; after?: string };
  /**
   * Bring a broadcast to these users over one channel. `attempt` counts the attempts before this one. Of
   * deliveries to devices, browsers and chats that were begun, `progress` says by user what is left to do.
   * `back` tells who was here before: waiting for a delivery window and nothing else, or in one that was
   * open, from when on the time to live runs. `replay` is how often they had been begun anew when it was
   * written: those that were once more since then are another job's. `awaited`: these are first attempts,
   * without which the broadcast is not processed.
   */
  deliver: {
    broadcast_id: string;
    channel: string;
    user_ids: readonly string[];
    attempt: number;
    first_attempt_ms: number;
    back?: 'waited' | 'begun';
    replay?: number;
    awaited?: true;
    progress?: Readonly<Record<string, Progress>>;
  };
  /**
   * Send deliveries of a broadcast anew that had failed by `asked_at` (a time in the database's words): the
   * next of them behind `after`, on one channel or on all.
   */
  replay: {
    broadcast_id: string;
    channel?: string;
    after: { user_id: string; channel: string };
    asked_at: string;
    text_weight: number;
  };
  /**
   * Ask a provider what became of these messages, which it calls by these ids and had taken at `sent_ms`.
   * `round` counts the times that it was asked, `failures` those of the present round at which it did not
   * answer.
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
   * Send these events to a webhook. `attempt` counts the attempts before this one, `since_ms` is when it
   * began; a `replay` was asked for. In the place of the project, such a job has the webhook: the queue then
   * takes turns over webhooks, and one that is slow holds up none of the others.
   */
  webhook: {
    webhook_id: string;
    event_ids: readonly string[];
    attempt: number;
    since_ms: number;
    replay?: boolean;
  };
}

/** How far a delivery to several targets has come. */
export interface Progress {
  /**
   * The targets that have not ended, by the ids of their tokens, and from when on each may be tried, in unix
   * milliseconds.
   */
  left: Readonly<Record<string, number>>;
  /** What became of the others. */
  accepted: number;
  gone: number;
  failed: number;
  /**
   * What providers call the messages that were accepted, in that order; missing where they have named none.
   */
  provider_ids?: readonly string[];
}

export type JobKind = keyof JobPayloads;

export const JOB_KINDS: readonly JobKind[] = ['fan_out', 'deliver', 'replay', 'poll_receipts', 'webhook'];

/** A job as a worker has claimed it. */
export interface Job<Kind extends JobKind = JobKind> {
  id: number;
  kind: Kind;
  projectId: string;
  priority: number;
  /** How much work it is, and how much memory: its recipients, and what its texts add to that. */
  weight: number;
  /** How often it was begun, this time included: more than once, and some of it may be done already. */
  attempt: number;
  payload: JobPayloads[Kind];
}

/** A job to be. */
export interface NewJob<Kind extends JobKind = JobKind> {
  kind: Kind;
  projectId: string;
  priority: number;
  weight: number;
  payload: JobPayloads[Kind];
  /** When it may run, in unix milliseconds; at once when left out. */
  dueAtMs?: number;
}

// So many characters of text weigh as much as a recipient: contents of 10 MiB are then taken one or two at a
// time.
const CHARACTERS_PER_RECIPIENT = 4_096;

/** The weight of a broadcast that is to be fanned out. */
export function fanOutWeight({ recipients, characters }: { recipients: number; characters: number }): number {
  return recipientsWeight(recipients) + Math.floor(characters / CHARACTERS_PER_RECIPIENT);
}

/** The part of it that is its recipients. */
export function recipientsWeight(recipients: number): number {
  return Math.max(recipients, 1);
}

/** Small work goes before bulk: one recipient's message never waits for a campaign of the same project. */
export function priorityFor(recipients: number): number {
  if (recipients <= 10) return 0;
  return recipients <= 100 ? 1 : BULK;
}

/** The priority of what is large. */
export const BULK = 2;
