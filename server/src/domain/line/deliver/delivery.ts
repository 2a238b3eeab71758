import type { MessageAddress } from '../../../providers/provider.ts';
import type { Job, JobPayloads, NewJob, Progress } from '../../../queue/jobs.ts';
import type { NewEvent } from '../../ground/events/record.ts';
import type { InstallationOfUser, InstallationToken } from '../../people/installations/token.ts';
import type { TokenRef } from '../../people/tokens/gone-token.ts';
import type { ProjectCategories } from '../../setup/categories/cache.ts';
import type { Closed } from '../../setup/delivery-windows/closed-until.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import type { Project } from '../../setup/projects/cache.ts';
import type { DraftContent, LoadedBroadcast, LoadedUser } from '../rendering/message.ts';
import type { TextRef } from '../sending/text-marks.ts';

/*
 * The values that the steps of a delivery (deliver.ts) pass on:
 *
 *   load      Job[]                     → Batch: the deliveries of the jobs
 *   decide    Delivery[]                → Decided[]: deliver, skip or defer
 *   address   Decided[]                 → Addressed[]: targets, the inbox, or the reason why there are none
 *   collect   Addressed                 → Collected: with what the messages of its targets are rendered from
 *   send      Collected                 → TargetResult[]; renders a message for each integration it tries
 *   conclude  Collected, TargetResult[] → Concluded: the outcome, and what remains to be done
 *   record    Concluded                 → written in batches, with the end of the job
 */

/** What the jobs of one project need, loaded together. */
export interface Batch {
  project: Project;
  categories: ProjectCategories;
  integrations: readonly OpenedIntegration[];
  /** Without those that have ended: nothing is left to do for them. */
  deliveries: readonly Delivery[];
}

/** A broadcast's way to one user over one channel. */
export interface Delivery {
  job: Job<'deliver'>;
  projectId: string;
  broadcastId: string;
  channel: string;
  userId: string;
  notificationId: string;
  broadcast: LoadedBroadcast;
  /** Undefined if the user was deleted since the fan-out. */
  user: LoadedUser | undefined;
  /** Attempts that were made. */
  attempts: number;
  /** When it became due. */
  dueAtMs: number;
  /** When its time to live ends: after that it is not sent. */
  expiresAtMs: number;
  /** What earlier attempts left to be done, if they did. */
  progress: Progress | undefined;
  /** One of its targets has accepted the message before; this is about the others. */
  wasSent: boolean;
}

/** A reason in events and lists: a word for programs, and a sentence. */
export interface Reason {
  code: string;
  reason: string;
}

export type Decided = { delivery: Delivery } & (
  | { kind: 'deliver' }
  | ({ kind: 'skip' } & Reason)
  | { kind: 'defer'; closed: Closed }
);

export type Addressed = { delivery: Delivery } & (
  | ({ kind: 'targets' } & Targets)
  | { kind: 'inbox' }
  | ({ kind: 'skip' | 'fail' } & Reason)
  | { kind: 'defer'; closed: Closed }
);

export type Collected =
  | Exclude<Addressed, { kind: 'targets' }>
  | (Extract<Addressed, { kind: 'targets' }> & { content: DraftContent });

/** The targets of a delivery. */
export interface Targets {
  now: readonly Target[];
  /** Targets that are not due, and when they are. */
  later: Readonly<Record<string, number>>;
  /** How many of the remaining targets were discarded since the last attempt. */
  lost: number;
}

/** Where a message goes: a device, browser or chat of a user, their e-mail address, or their numbers. */
export interface Target {
  /** The id of the token; or else the channel. */
  id: string;
  /** The integrations that reach it, in the order of failover: at least one. */
  integrations: readonly OpenedIntegration[];
  to: Destination;
  token?: TokenRef;
  /** Addresses and tokens that identify the recipient and must not appear in events. */
  identifiers: readonly string[];
}

export type Destination =
  | { kind: 'email'; email: string }
  /** The first of them; the next one if a number is rejected. */
  | { kind: 'numbers'; numbers: readonly string[] }
  /** The address of a token; or without one the integration's own destination. */
  | { kind: 'address'; address: MessageAddress | undefined }
  | ({ kind: 'installation' } & Installed)
  /** A token that cannot be decrypted. */
  | { kind: 'unreadable' };

/** The installation of an app that posts for a token. */
export interface Installed {
  installation: InstallationOfUser;
  access: InstallationToken;
  withAccess(accessToken: string): MessageAddress;
}

/** The result of an attempt at one target. */
export type TargetResult = { targetId: string; integration?: OpenedIntegration | undefined } & (
  | { kind: 'accepted'; providerId?: string | undefined }
  | { kind: 'gone' | 'failed'; reason: string; code?: string | undefined }
  /** To be retried, at the latest after `delayMs`. */
  | { kind: 'retry'; delayMs: number; reason: string; code?: string | undefined }
  /** It was not tried, and will be due then, or when what it waits for changes. */
  | { kind: 'deferred'; untilMs: number; reason: string; waitsFor?: WaitsFor | undefined }
) & {
    /** The integration that may have sent the message, of a target that is to be tried again. */
    ambiguousId?: string | undefined;
    /** Addresses that the provider rejected for good. */
    rejected?: readonly RejectedAddress[];
    /** A text message was marked, and surely not sent: the mark is to be removed. */
    hasUnusedMark?: boolean;
  };

/** What a deferred delivery waits for: an integration that is paused or does not respond, or its rate. */
export type WaitsFor = NonNullable<JobPayloads['deliver']['waits_for']>;

export interface RejectedAddress {
  kind: 'email' | 'phone';
  address: string;
  reason: string;
}

/** The result of an attempt: what is to be recorded, and what remains to be done. */
export interface Concluded {
  delivery: Delivery;
  /** Left out if nothing was tried: then there is nothing to record. */
  outcome?: Omit<DeliveryOutcome, 'durationMs'>;
  remaining?: Remaining | undefined;
  /** Its delivery window is closed. */
  closed?: Closed;
  /** Messages that providers accepted, if no outcome has them. */
  accepted?: readonly AcceptedMessage[];
  /** A text message that was marked and surely not sent, if no outcome has it. */
  unusedMark?: TextRef;
}

/** What remains of a delivery. */
export interface Remaining extends Omit<Progress, 'left'> {
  /** Attempts that were made. */
  attempt: number;
  /** By target: the delay until the next attempt, or its time and what it waits for. */
  left: Readonly<Record<string, { delayMs: number } | { atMs: number; waitsFor?: WaitsFor | undefined }>>;
}

/** How many targets of several ended how. */
export interface TargetCounts {
  accepted: number;
  gone: number;
  failed: number;
  /** The providers' ids of the accepted messages, in their order. */
  provider_ids: readonly string[];
}

/** The outcome of one attempt at one delivery. */
export interface DeliveryOutcome {
  projectId: string;
  broadcastId: string;
  userId: string;
  notificationId: string;
  channel: string;
  /** How often it had been replayed, from the job. Outcomes of deliveries replayed since then are ignored. */
  replay?: number | undefined;
  state: 'sent' | 'failed' | 'skipped' | 'retrying';
  /** Attempts made, this one included. */
  attempts: number;
  integrationId: string | null;
  provider: string | null;
  providerId: string | null;
  code: string | null;
  reason: string | null;
  firstAttemptMs: number;
  durationMs: number;
  /** The broadcast awaits its first attempt, from the job. */
  awaited?: boolean | undefined;
  /** Only of a delivery to several targets. */
  targets?: TargetCounts | undefined;
  /** What remains to be done. */
  progress?: Progress | undefined;
  /** It was `sent` before, and this is the outcome of further targets. */
  continues?: boolean | undefined;
  /** Addresses of the user that the provider rejected for good. */
  rejected?: readonly RejectedAddress[];
  /** A text message was marked, and surely not sent: the mark is to be removed. */
  hasUnusedMark?: boolean;
  /** Messages that were accepted in this attempt, whose receipts are polled. */
  accepted?: readonly AcceptedMessage[];
}

/** The end of a job. It is deleted, and what remains becomes new jobs. */
export interface FinishedJob {
  jobId: number;
  leaseId: string;
  retries: readonly NewJob<'deliver'>[];
  /** How many deliveries that the broadcast awaits are left to the retries. */
  deferred?: { broadcastId: string; deliveries: number } | undefined;
  /** Polls for receipts of messages that no outcome has. */
  polls?: readonly NewJob<'poll_receipts'>[];
  /** Events of deliveries that are deferred. */
  events?: readonly NewEvent[];
  /** Text messages that were marked and surely not sent, if no outcome has them. */
  unusedMarks?: readonly TextRef[];
}

/** A message that a provider has accepted. */
export interface AcceptedMessage {
  projectId: string;
  integrationId: string;
  provider: string;
  broadcastId: string;
  userId: string;
  /** The token that it was sent to. */
  tokenId: string;
  /** The provider's id of it. */
  providerId: string;
  /** When sending began. A token that was saved later is known to be valid. */
  sentMs: number;
}
