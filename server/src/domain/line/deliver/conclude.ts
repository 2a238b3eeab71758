import { notificationId } from '../../../lib/ids.ts';
import { oneLine } from '../../../lib/one-line.ts';
import { withoutAddress } from '../../../lib/without-address.ts';
import { pollsOf, wireNameOf } from '../../../providers/index.ts';
import type { Job, Progress } from '../../../queue/jobs.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import type { LoadedUser } from '../rendering/message.ts';
import type {
  AcceptedMessage,
  Addressed,
  Concluded,
  Delivery,
  DeliveryOutcome,
  Reason,
  Remaining,
  TargetCounts,
  TargetResult,
} from './delivery.ts';

type ConcludedOutcome = NonNullable<Concluded['outcome']>;

/** Concludes an attempt. `sentMs`: when sending began. Pure. */
export function conclude(
  addressed: Addressed,
  results: readonly TargetResult[],
  { brand, sentMs, nowMs }: { brand: string; sentMs: number; nowMs: number },
): Concluded {
  const { delivery } = addressed;
  switch (addressed.kind) {
    case 'defer':
      return { delivery, closed: addressed.closed };
    case 'skip':
    case 'fail': {
      // It was sent if a target has accepted the message before.
      const isSent = (delivery.progress?.accepted ?? 0) > 0;
      const state = isSent ? 'sent' : addressed.kind === 'skip' ? 'skipped' : 'failed';
      return { delivery, outcome: endOf(delivery, state, addressed) };
    }
    case 'inbox':
      return { delivery, outcome: shownInInbox(delivery, brand) };
    case 'targets':
      return concludeSends(delivery, addressed, results, { brand, sentMs, nowMs });
  }
}

function concludeSends(
  delivery: Delivery,
  { now, later, lost }: Extract<Addressed, { kind: 'targets' }>,
  results: readonly TargetResult[],
  { brand, sentMs, nowMs }: { brand: string; sentMs: number; nowMs: number },
): Concluded {
  const { job, user, userId, notificationId: id, channel, attempts, progress, expiresAtMs } = delivery;
  const before = { attempt: attempts, progress, later, lost, nowMs, expiresAtMs };
  const { outcome, remaining } = concludeTargets(before, results);
  const accepted = acceptedMessages(delivery, sentMs, results);
  const hasUnusedMark = results.some((result) => result.hasUnusedMark);
  if (outcome === undefined)
    return {
      delivery,
      accepted,
      remaining,
      ...(hasUnusedMark && {
        unusedMark: { userId, notificationId: id, channel, replay: job.payload.replay },
      }),
    };
  const { integration, providerId, code, reason } = outcome;
  const identifiers = () => [
    ...(user ? identifiersOf(user) : []),
    ...now.flatMap((target) => target.identifiers),
  ];
  const rejected = results.flatMap((result) => result.rejected ?? []);
  return {
    delivery,
    remaining,
    outcome: {
      ...identityOf(job, userId),
      state: outcome.state,
      attempts: outcome.attempts,
      integrationId: integration?.id ?? null,
      provider: integration === undefined ? null : wireNameOf(integration.provider, brand),
      providerId: providerId ?? null,
      code: cleaned(code),
      reason: reason === undefined ? null : cleaned(withoutAddress(reason, identifiers())),
      targets: outcome.targets,
      progress: outcome.progress,
      continues: delivery.wasSent,
      ...(rejected.length === 0 ? {} : { rejected }),
      hasUnusedMark,
      accepted,
    },
  };
}

/** The accepted messages of a delivery whose provider is polled for receipts. Pure. */
function acceptedMessages(
  { projectId, broadcastId, userId }: Pick<Delivery, 'projectId' | 'broadcastId' | 'userId'>,
  sentMs: number,
  results: readonly TargetResult[],
): AcceptedMessage[] {
  return results.flatMap((result) => {
    const { targetId: tokenId, integration } = result;
    if (result.kind !== 'accepted' || result.providerId === undefined || integration === undefined) return [];
    const { id: integrationId, provider } = integration;
    if (pollsOf(provider) === undefined) return [];
    const { providerId } = result;
    return [{ projectId, integrationId, provider, broadcastId, userId, tokenId, providerId, sentMs }];
  });
}

/**
 * The outcomes of a job that an error of ours stops each time: its deliveries fail, unless a target has
 * accepted the message.
 */
export function concludeDiscarded(job: Job<'deliver'>, reason: string): DeliveryOutcome[] {
  const { user_ids: userIds, attempt, progress } = job.payload;
  return userIds.map((userId) => {
    const reached = progress?.[userId];
    const isSent = (reached?.accepted ?? 0) > 0;
    return {
      ...identityOf(job, userId),
      ...NO_PROVIDER,
      ...reachedBy(reached),
      state: isSent ? 'sent' : 'failed',
      attempts: attempt,
      continues: isSent,
      code: 'internal_error',
      reason: isSent ? reason : `${reason}. Replay the delivery when that is corrected`,
      durationMs: 0,
    };
  });
}

/** The outcome of a delivery for which nothing was tried this time. */
function endOf(
  { job, userId, attempts, progress, wasSent }: Delivery,
  state: 'sent' | 'failed' | 'skipped',
  { code, reason }: Reason,
): ConcludedOutcome {
  return {
    ...identityOf(job, userId),
    ...NO_PROVIDER,
    ...reachedBy(progress),
    state,
    attempts,
    code,
    reason: cleaned(reason),
    continues: wasSent,
  };
}

/** The inbox is our own, and has the brand's name. The job's notifications were shown in it before. */
function shownInInbox({ job, userId, attempts }: Delivery, brand: string): ConcludedOutcome {
  const none = { code: null, reason: null };
  return {
    ...identityOf(job, userId),
    ...NO_PROVIDER,
    ...none,
    state: 'sent',
    attempts: attempts + 1,
    provider: brand,
  };
}

const NO_PROVIDER = { integrationId: null, provider: null, providerId: null };

/** The members of an outcome that identify its delivery. */
function identityOf({ projectId, payload }: Job<'deliver'>, userId: string) {
  const { broadcast_id: broadcastId, channel, first_attempt_ms: firstAttemptMs, replay, awaited } = payload;
  const id = notificationId(broadcastId, userId);
  return { projectId, broadcastId, userId, notificationId: id, channel, firstAttemptMs, replay, awaited };
}

// Shorter ids are parts of other words.
const SHORTEST_NAME = 6;

/** What a vendor may call the user by. A first or last name alone may be any word. */
function identifiersOf(user: LoadedUser): string[] {
  const { email, external_id: externalId, first_name: first, last_name: last, phone_numbers: numbers } = user;
  const names = [externalId ?? '', first && last ? `${first} ${last}` : ''];
  return [email ?? '', ...names.filter((name) => name.length >= SHORTEST_NAME), ...numbers];
}

function cleaned(text: string | undefined): string | null {
  return text === undefined ? null : oneLine(text, 500);
}

/** A delivery before its targets are tried. */
export interface BeforeAttempt {
  /** Attempts that were made. */
  attempt: number;
  progress: Progress | undefined;
  /** Targets that are not due, and when they are. */
  later: Readonly<Record<string, number>>;
  /** How many of the remaining targets were discarded since the last attempt. */
  lost: number;
  nowMs: number;
  expiresAtMs: number;
}

/** The result of an attempt for the targets of a delivery. */
export interface TargetsConcluded {
  /** Left out if nothing was tried. */
  outcome?: {
    state: 'sent' | 'failed' | 'retrying';
    attempts: number;
    integration: OpenedIntegration | undefined;
    providerId: string | undefined;
    code: string | undefined;
    reason: string | undefined;
    /** Only if there are several targets. */
    targets: TargetCounts | undefined;
    /** What remains to be done, if anything does. */
    progress: Progress | undefined;
  };
  remaining?: Remaining;
}

/**
 * Concludes an attempt at targets. The delivery is `sent` as soon as one target has accepted the message,
 * while others are retried. It has failed if no target remains and none has accepted it. A target that would
 * be retried after the time to live has failed. Pure.
 */
export function concludeTargets(before: BeforeAttempt, given: readonly TargetResult[]): TargetsConcluded {
  const { progress, later, lost } = before;
  const results = given.map((result) => inTime(result, before));
  const counts = {
    accepted: (progress?.accepted ?? 0) + count(results, 'accepted'),
    gone: (progress?.gone ?? 0) + lost + count(results, 'gone'),
    failed: (progress?.failed ?? 0) + count(results, 'failed'),
  };
  const providerIds = [...(progress?.provider_ids ?? []), ...results.flatMap(providerIdOf)];
  const left: Record<string, Remaining['left'][string]> = {};
  const ambiguous: Record<string, string> = {};
  for (const [id, atMs] of Object.entries(later)) {
    left[id] = { atMs };
    const integrationId = progress?.ambiguous?.[id];
    if (integrationId !== undefined) ambiguous[id] = integrationId;
  }
  for (const result of results) {
    delete left[result.targetId];
    if (result.ambiguousId !== undefined) ambiguous[result.targetId] = result.ambiguousId;
    if (result.kind === 'retry') left[result.targetId] = { delayMs: result.delayMs };
    if (result.kind === 'deferred') {
      const { untilMs: atMs, waitsFor } = result;
      left[result.targetId] = { atMs, waitsFor };
    }
  }
  const wasTried = given.some(({ kind }) => kind !== 'deferred');
  const attempts = before.attempt + (wasTried ? 1 : 0);
  const isOver = Object.keys(left).length === 0;
  const reached: Reached = {
    ...counts,
    left,
    ...(providerIds.length > 0 ? { provider_ids: providerIds } : {}),
    ...(Object.keys(ambiguous).length > 0 ? { ambiguous } : {}),
  };
  return {
    ...(isOver || wasTried ? { outcome: outcomeOf(results, reached, attempts, before.nowMs) } : {}),
    ...(isOver ? {} : { remaining: { ...reached, left, attempt: attempts } }),
  };
}

/** What the targets of a delivery have come to if nothing more is tried. */
export function reachedBy(progress: Progress | undefined): {
  providerId: string | null;
  targets: TargetCounts | undefined;
} {
  return { providerId: progress?.provider_ids?.[0] ?? null, targets: progress && targetCounts(progress) };
}

type Reached = Omit<Remaining, 'attempt'>;

function targetCounts(reached: Omit<Progress, 'left'> & { left: object }): TargetCounts | undefined {
  const { accepted, gone, failed, provider_ids = [], left } = reached;
  const isSeveral = accepted + gone + failed + Object.keys(left).length > 1;
  return isSeveral ? { accepted, gone, failed, provider_ids } : undefined;
}

function outcomeOf(
  results: readonly TargetResult[],
  reached: Reached,
  attempts: number,
  nowMs: number,
): NonNullable<TargetsConcluded['outcome']> {
  const isOver = Object.keys(reached.left).length === 0;
  const state = reached.accepted > 0 ? 'sent' : isOver ? 'failed' : 'retrying';
  const [first] = REPORTED[state].flatMap((kind) => results.filter((result) => result.kind === kind));
  const why = first === undefined ? (state === 'failed' ? TOKEN_DISCARDED : undefined) : first;
  return {
    state,
    attempts,
    integration: first?.integration,
    providerId: reached.provider_ids?.[0],
    code: why !== undefined && 'code' in why ? why.code : undefined,
    reason: why !== undefined && 'reason' in why ? why.reason : undefined,
    targets: targetCounts(reached),
    progress: isOver ? undefined : { ...reached, left: timesOf(reached.left, nowMs) },
  };
}

function timesOf(left: Reached['left'], nowMs: number): Progress['left'] {
  return Object.fromEntries(
    Object.entries(left).map(([id, due]) => [id, 'delayMs' in due ? nowMs + due.delayMs : due.atMs]),
  );
}

/** The result that is reported: the first of the first kind in this order. */
const REPORTED = {
  sent: ['accepted', 'retry', 'failed', 'gone'],
  retrying: ['retry', 'failed', 'gone'],
  failed: ['failed', 'gone'],
} as const;

const TOKEN_DISCARDED = { code: 'token_discarded', reason: 'the token was discarded' };

function count(results: readonly TargetResult[], kind: TargetResult['kind']): number {
  return results.filter((result) => result.kind === kind).length;
}

function providerIdOf(result: TargetResult): readonly string[] {
  return result.kind === 'accepted' && result.providerId !== undefined ? [result.providerId] : [];
}

/** Fails a target that would be retried after the time to live, or that `send` did not try in time. */
function inTime(result: TargetResult, { nowMs, expiresAtMs }: BeforeAttempt): TargetResult {
  if (result.kind !== 'retry' && result.kind !== 'deferred') return result;
  const atMs = result.kind === 'retry' ? nowMs + result.delayMs : result.untilMs;
  if (atMs <= expiresAtMs) return result;
  const { targetId, integration } = result;
  return {
    kind: 'failed',
    targetId,
    integration,
    code: (result.kind === 'retry' ? result.code : undefined) ?? 'expired',
    reason: `expired: not delivered within the time to live of the channel: ${result.reason}`,
  };
}
