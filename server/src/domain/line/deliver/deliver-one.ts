import type { Tracking } from '../../../contract/tracking.ts';
import { oneLine } from '../../../lib/one-line.ts';
import { withoutAddress } from '../../../lib/without-address.ts';
import { wireNameOf } from '../../../providers/index.ts';
import type { Job, Progress } from '../../../queue/jobs.ts';
import type { TrackedLinks } from '../../ground/links/links.ts';
import { linksOf, pushClickUrl } from '../../ground/links/links.ts';
import { receiptUrl } from '../../ground/links/receipt-url.ts';
import { referenceOf } from '../../ground/links/reference.ts';
import { unsubscribeUrl } from '../../ground/links/unsubscribe-link.ts';
import { validKeys } from '../../setup/projects/keys.ts';
import type { LineContext } from '../context/context.ts';
import type { LoadedUser } from '../rendering/record.ts';
import { nameOf, type Unwanted } from '../routing/still-wanted.ts';
import { timeToLiveMs } from '../routing/time-to-live.ts';
import { type Attempt, type Attempted, attemptTarget, type Engine, secretsOf } from './attempt.ts';
import { type Again, type Conclusion, cameTo, conclude } from './conclude.ts';
import type { Loaded, LoadedBroadcast } from './load.ts';
import { type TakenMessage, takenMessages } from './poll-jobs.ts';
import type { Addressed, Target } from './targets.ts';
import type { Marked, TextMark } from './text-marks.ts';
import type { DeliveryOutcome } from './write-outcomes.ts';

/** What a batch of deliveries works with. */
export interface Batch {
  context: LineContext;
  engine: Engine;
  loaded: Loaded;
}

/** One delivery of a job. */
export interface Delivery {
  job: Job<'deliver'>;
  userId: string;
  /** The notification's. */
  id: string;
  /** The wait before another attempt, where the provider names no time. */
  ownDelayMs: number;
}

/** What became of a delivery, and what is left to do. */
export interface Made {
  /** Missing where nothing was tried. */
  outcome?: Outcome;
  again?: Again;
  /** What providers have taken, where no outcome says it. */
  taken?: readonly TakenMessage[];
  /** A text message that was marked as about to be sent, and was not. */
  untried?: Marked;
}

type Outcome = Omit<
  DeliveryOutcome,
  | 'projectId'
  | 'broadcastId'
  | 'userId'
  | 'notificationId'
  | 'channel'
  | 'replay'
  | 'firstAttemptMs'
  | 'awaited'
  | 'durationMs'
>;

/**
 * Makes a delivery that has no final outcome yet: to every target whose time has come, unless it is not
 * wanted any more.
 */
export async function deliverOne(batch: Batch, delivery: Delivery): Promise<Made> {
  const { context, loaded } = batch;
  const { job, id, userId } = delivery;
  const { channel, broadcast_id: broadcastId } = job.payload;
  const name = nameOf(broadcastId, channel, userId);
  const before = loaded.begun.get(id + channel);
  const begun = before?.progress ?? job.payload.progress?.[userId];
  // An attempt whose job did not come to its end was written down all the same.
  const attempt = Math.max(job.payload.attempt, before?.attempts ?? 0);
  const continues = before?.sent === true;
  const unwanted = loaded.unwanted.get(name);
  // What one of the targets has taken was sent, whatever is wanted now.
  if (unwanted !== undefined)
    return {
      outcome: {
        ...ended((begun?.accepted ?? 0) > 0 ? 'sent' : 'skipped', attempt, unwanted, begun),
        continues,
      },
    };
  if (channel === 'in_app') return { outcome: shownInInbox(context, attempt + 1) };
  const addressed = loaded.addressed.get(name);
  const [broadcast, user] = [loaded.broadcasts.get(broadcastId), loaded.users.get(userId)];
  if (addressed === undefined || broadcast === undefined || user === undefined)
    throw new Error('a delivery of what is not there');
  if (addressed.kind !== 'targets') return { outcome: ended(addressed.kind, attempt, addressed) };
  const expiresAtMs = job.payload.first_attempt_ms + timeToLiveMs(channel);
  const sentMs = context.clock.now();
  const late = sentMs > expiresAtMs;
  const tried = late
    ? tooLate(addressed, sentMs)
    : await attemptAll(batch, delivery, { broadcast, user, expiresAtMs }, addressed.now);
  const { outcome, again } = conclude(
    {
      attempt,
      progress: begun,
      later: late ? {} : addressed.later,
      lost: addressed.lost,
      nowMs: context.clock.now(),
      expiresAtMs,
    },
    tried.map(({ result }) => result),
  );
  const taken = takenMessages(
    { projectId: job.projectId, broadcastId, userId, sentMs },
    tried.map(({ result }) => result),
  );
  return {
    ...(outcome === undefined
      ? { taken, ...(tried.some(({ marked }) => marked) ? { untried: textMark(job, userId, id) } : {}) }
      : { outcome: { ...told(context, user, outcome, addressed.now, tried), taken, continues } }),
    ...(again === undefined ? {} : { again }),
  };
}

function textMark({ payload }: Job<'deliver'>, userId: string, id: string): TextMark {
  const { broadcast_id: broadcastId, channel, attempt, first_attempt_ms: firstAttemptMs, replay } = payload;
  return { userId, notificationId: id, broadcastId, channel, attempt, firstAttemptMs, replay };
}

/** The end of a delivery to which nothing was tried this time. */
function ended(
  state: 'sent' | 'failed' | 'skipped',
  attempts: number,
  { code, reason }: Unwanted,
  begun?: Progress,
): Outcome {
  const { providerId, targets } = cameTo(begun);
  const of = { integrationId: null, provider: null, providerId: providerId ?? null, targets };
  return { state, attempts, ...of, code, reason: clean(reason) };
}

/**
 * What is left of a delivery whose time is over is not tried any more: held until now, it comes too late for
 * `conclude`.
 */
function tooLate({ now, later }: Extract<Addressed, { kind: 'targets' }>, nowMs: number): Attempted[] {
  const left = [...now.map(({ id }) => id), ...Object.keys(later)];
  return left.map((targetId) => ({
    result: { targetId, kind: 'held', untilMs: nowMs, reason: 'it could not be sent before' },
    refused: [],
    ambiguous: false,
    marked: false,
  }));
}

/** It was shown before, with all of the job. The inbox is our own, and has the brand's name. */
function shownInInbox({ config }: LineContext, attempts: number): Outcome {
  const none = { integrationId: null, providerId: null, code: null, reason: null };
  return { state: 'sent', attempts, provider: config.BRAND, ...none };
}

async function attemptAll(
  { context, engine, loaded }: Batch,
  { job, id, ownDelayMs }: Delivery,
  { broadcast, user, expiresAtMs }: { broadcast: LoadedBroadcast; user: LoadedUser; expiresAtMs: number },
  targets: readonly Target[],
): Promise<Attempted[]> {
  const { channel, first_attempt_ms: dueAtMs } = job.payload;
  const said = broadcast.said.get(channel);
  if (said === undefined) throw new Error(`no texts for ${channel}`);
  const { id: userId } = user;
  const about = { channel, broadcastId: broadcast.id, userId };
  const { BRAND: brand } = context.config;
  const tracking = TRACKED.has(channel)
    ? (await context.categories.of(loaded.project.id)).tracking
    : undefined;
  const attempt: Attempt = {
    message: {
      id,
      broadcast,
      user,
      said,
      dueAtMs,
      expiresAtMs,
      ...(tracking && trackedPush(context, loaded, tracking, about)),
    },
    mailing: {
      brand,
      signingKeys: validKeys(loaded.project.apiSecrets, context.clock.now()),
      ...(tracking && trackedEmail(context, loaded, tracking, about)),
      unsubscribeUrl: () => {
        if (broadcast.critical) return undefined;
        return unsubscribeUrl(context.config, loaded.project, {
          userId,
          category: broadcast.category,
          channel,
        });
      },
    },
    receiptUrl: (integration) =>
      receiptUrl(
        context.config,
        loaded.project,
        integration,
        referenceOf({ broadcastId: broadcast.id, userId }),
      ),
    ownDelayMs,
    text: channel === 'sms' ? textMark(job, userId, id) : undefined,
  };
  return Promise.all(targets.map((target) => attemptTarget(context, engine, attempt, target)));
}

interface About {
  channel: string;
  broadcastId: string;
  userId: string;
}

const TRACKED: ReadonlySet<string> = new Set(['email', 'web_push']);

/** The tracked links of an e-mail, where the project wants any. */
function trackedEmail(
  { config }: LineContext,
  { project }: Loaded,
  tracking: Tracking,
  { channel, ...of }: About,
): { tracked?: TrackedLinks } {
  if (channel !== 'email') return {};
  const tracked = linksOf(config, project, tracking, { ...of, channel });
  return tracked === undefined ? {} : { tracked };
}

/**
 * Where a browser tells of the click on a push, where the project wants to know: it has no token to tell it
 * with.
 */
function trackedPush(
  { config }: LineContext,
  { project }: Loaded,
  tracking: Tracking,
  { channel, ...of }: About,
): { trackingUrl?: string } {
  if (channel !== 'web_push') return {};
  const trackingUrl = pushClickUrl(config, project, tracking, of);
  return trackingUrl === undefined ? {} : { trackingUrl };
}

/** An outcome in the words that are kept and shown: what a provider says is text from outside. */
function told(
  { config }: LineContext,
  user: LoadedUser,
  { state, attempts, integration, ...said }: NonNullable<Conclusion['outcome']>,
  targets: readonly Target[],
  tried: readonly Attempted[],
): Outcome {
  const addresses = () => [...namesOf(user), ...user.phone_numbers, ...targets.flatMap(secretsOf)];
  const refused = tried.flatMap((one) => one.refused);
  return {
    state,
    attempts,
    integrationId: integration?.id ?? null,
    provider: integration === undefined ? null : wireNameOf(integration.provider, config.BRAND),
    providerId: said.providerId ?? null,
    code: clean(said.code),
    reason: said.reason === undefined ? null : clean(withoutAddress(said.reason, addresses())),
    targets: said.targets,
    progress: said.progress,
    ...(refused.length === 0 ? {} : { refused }),
    notSent: tried.some(({ result, ambiguous, marked }) => marked && result.kind === 'retry' && !ambiguous),
  };
}

// Shorter ids are parts of other words.
const SHORTEST_NAME = 6;

/** What a vendor may call the user by. A first or last name alone may be any word. */
function namesOf({
  email,
  external_id: externalId,
  first_name: first,
  last_name: last,
}: LoadedUser): string[] {
  const names = [externalId ?? '', first && last ? `${first} ${last}` : ''];
  return [email ?? '', ...names.filter((name) => name.length >= SHORTEST_NAME)];
}

function clean(text: string | undefined): string | null {
  return text === undefined ? null : oneLine(text, 500);
}
