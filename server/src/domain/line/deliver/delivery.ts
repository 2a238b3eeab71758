import type { MessageAddress } from '../../../providers/provider.ts';
import type { Job, Progress } from '../../../queue/jobs.ts';
import type { InstallationOfUser, InstallationToken } from '../../people/installations/token.ts';
import type { TokenRef } from '../../people/tokens/gone-token.ts';
import type { ProjectCategories } from '../../setup/categories/cache.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import type { Project } from '../../setup/projects/cache.ts';
import type { LoadedBroadcast, LoadedUser } from '../rendering/record.ts';

/*
 * The values that the steps of a delivery (deliver.ts) pass on:
 *
 *   load      Job[]                     → Batch: the deliveries of the jobs
 *   decide    Delivery[]                → Decided[]: deliver, skip or defer
 *   address   Decided[]                 → Addressed[]: targets, the inbox, or the reason why there are none
 *   render    Delivery                  → DraftContent (rendering/draft.ts)
 *   send      Target[], DraftContent    → TargetResult[]
 *   conclude  Addressed, TargetResult[] → Concluded: the outcome, and what remains to be done
 *   record    Concluded                 → written by write-outcomes.ts, with the end of the job
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
  /** Its delivery window is closed until then. */
  | { kind: 'defer'; untilMs: number }
);

export type Addressed = { delivery: Delivery } & (
  | ({ kind: 'targets' } & Targets)
  | { kind: 'inbox' }
  | ({ kind: 'skip' | 'fail' } & Reason)
  | { kind: 'defer'; untilMs: number }
);

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
  /** Texts that identify the recipient and must not appear in events. */
  secrets: readonly string[];
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
export type TargetResult = { targetId: string; integration?: OpenedIntegration } & (
  | { kind: 'accepted'; providerId?: string }
  | { kind: 'gone' | 'failed'; reason: string; code?: string }
  /** To be retried, at the latest after `delayMs`. */
  | { kind: 'retry'; delayMs: number; reason: string; code?: string }
  /** It was not tried, and will be due then. */
  | { kind: 'deferred'; untilMs: number; reason: string }
) & {
    /** Addresses that the provider rejected for good. */
    rejected?: readonly RejectedAddress[];
    /** A text message was marked, and surely not sent: the mark is to be removed. */
    isMarkUnused?: boolean;
  };

export interface RejectedAddress {
  kind: 'email' | 'phone';
  address: string;
  reason: string;
}
