import { oneLine } from '../../../lib/one-line.ts';
import type { SendOutcome } from '../../../providers/provider.ts';
import { type InstallationToken, installationToken } from '../../people/installations/token.ts';
import type { TokenDiscarder } from '../../people/tokens/discard-gone.ts';
import type { LineContext } from '../context/context.ts';
import {
  addressedDraft,
  type Draft,
  type DraftContent,
  emailDraft,
  textDraft,
  weightOf,
} from '../rendering/message.ts';
import { type AttemptResult, type Dispatcher, unreadable } from '../sending/dispatcher.ts';
import { NOT_A_THIRD_TIME, type TextDelivery, type TextMarker, TextSend } from '../sending/text-marks.ts';
import type { Collected, Delivery, Installed, RejectedAddress, Target, TargetResult } from './delivery.ts';

// The limit of `Retry-After`: the provider may have erred.
const LONGEST_DELAY_MS = 3_600_000;

/** What sending needs besides the context. */
export interface SendDeps {
  dispatcher: Pick<Dispatcher, 'send'>;
  marker: Pick<TextMarker, 'mark'>;
  discarder: Pick<TokenDiscarder, 'add'>;
}

/**
 * Sends a delivery to all targets that are due. `delayMs` is the wait before a retry if the provider names no
 * time. Never rejects for what a vendor, the network or an address does.
 */
export async function send(
  context: LineContext,
  deps: SendDeps,
  { delivery, content, now, later }: Extract<Collected, { kind: 'targets' }>,
  delayMs: number,
): Promise<TargetResult[]> {
  const { nowMs, expiresAtMs } = content;
  // Deferred to a time after the time to live: so `conclude` fails the delivery, and counts no attempt.
  if (nowMs > expiresAtMs)
    return [...now.map(({ id }) => id), ...Object.keys(later)].map((targetId) => ({
      targetId,
      kind: 'deferred',
      untilMs: nowMs,
      reason: 'it was deferred until its time to live had ended',
    }));
  const attempt = { delivery, content, delayMs };
  return Promise.all(now.map((target) => sendToTarget(context, deps, attempt, target)));
}

/** What is the same for all targets of a delivery. */
interface Attempt {
  delivery: Delivery;
  content: DraftContent;
  delayMs: number;
}

async function sendToTarget(
  context: LineContext,
  deps: SendDeps,
  attempt: Attempt,
  target: Target,
): Promise<TargetResult> {
  const { content } = attempt;
  const { to } = target;
  switch (to.kind) {
    case 'email': {
      const result = await dispatch(deps, attempt, target, emailDraft(content, to.email));
      const rejected = rejectedAddress(result, 'email', to.email);
      return { ...targetResult(attempt, target, result), ...(rejected && { rejected: [rejected] }) };
    }
    case 'address': {
      const draft = addressedDraft(content, to.address);
      return targetResult(attempt, target, await dispatch(deps, attempt, target, draft));
    }
    case 'installation':
      return targetResult(attempt, target, await sendByInstallation(context, deps, attempt, target, to));
    case 'unreadable':
      return targetResult(attempt, target, notTried(target, unreadable('token', TOKEN_UNREADABLE)));
    case 'numbers':
      return sendToNumbers(context, deps, attempt, target, to.numbers);
  }
}

function dispatch(
  { dispatcher }: SendDeps,
  { content, delivery }: Attempt,
  target: Target,
  draft: Draft,
  { part = target.id, text }: { part?: string; text?: TextSend } = {},
): Promise<AttemptResult> {
  const { integrations, identifiers, token } = target;
  const ambiguousId = delivery.progress?.ambiguous?.[target.id];
  return dispatcher.send({
    integrations,
    draft,
    targetId: `${content.notificationId}.${content.channel}.${part}`,
    broadcastId: content.broadcast.id,
    hasReturned: delivery.job.payload.back === 'begun',
    userId: content.user.id,
    weight: weightOf(content),
    identifiers,
    token,
    ambiguousId,
    text,
  });
}

/** If a number is rejected, nothing was sent, and the next one is tried. */
async function sendToNumbers(
  { clock }: LineContext,
  deps: SendDeps,
  attempt: Attempt,
  target: Target,
  numbers: readonly string[],
): Promise<TargetResult> {
  const text = new TextSend(deps.marker, textDeliveryOf(attempt.delivery));
  const rejected: RejectedAddress[] = [];
  let result: AttemptResult | undefined;
  for (const number of numbers) {
    const to = number.replace(/[^+0-9]/g, '');
    const draft = textDraft(attempt.content, to);
    result = await dispatch(deps, attempt, target, draft, { part: to, text });
    const address = rejectedAddress(result, 'phone', number);
    if (address === undefined) break;
    rejected.push(address);
  }
  if (result === undefined) throw new Error('a delivery by text message without a number');
  const isAmbiguous = result.kind === 'done' && result.outcome.kind === 'retry' && result.outcome.ambiguous;
  const made = targetResult(attempt, target, result);
  // A rejected number was an attempt, and its rejection has to be recorded before the next: otherwise that
  // would begin with this number, and use the permit of the other.
  const counted: TargetResult =
    made.kind === 'deferred' && rejected.length > 0
      ? {
          kind: 'retry',
          targetId: target.id,
          delayMs: Math.max(0, made.untilMs - clock.now()),
          reason: made.reason,
          ambiguousId: made.ambiguousId,
        }
      : made;
  const isUnsent = counted.kind === 'deferred' || (counted.kind === 'retry' && !isAmbiguous);
  return {
    ...(isAmbiguous && text.isLast ? sentTwice(counted) : counted),
    rejected,
    hasUnusedMark: text.isMarked && isUnsent,
  };
}

/** The row of a delivery by text message, which is marked before it is sent. */
function textDeliveryOf({ job, broadcastId, channel, userId, notificationId }: Delivery): TextDelivery {
  const { attempt, first_attempt_ms: firstAttemptMs, replay } = job.payload;
  return { userId, notificationId, broadcastId, channel, attempt, firstAttemptMs, replay };
}

function sentTwice(result: TargetResult): TargetResult {
  const { targetId, integration } = result;
  const last = 'reason' in result ? `: ${result.reason}` : '';
  return {
    kind: 'failed',
    targetId,
    integration,
    code: 'ambiguous',
    reason: `${NOT_A_THIRD_TIME.reason}${last}`,
  };
}

const TOKEN_UNREADABLE =
  'The token cannot be decrypted: it was encrypted with a key that this server does not have. ' +
  'Add that key to SECRET_KEY, or save the token again';

/** Uses the access token of the installation; and once more a new one, if the provider calls it expired. */
async function sendByInstallation(
  context: LineContext,
  deps: SendDeps,
  attempt: Attempt,
  target: Target,
  { installation, access, withAccess }: Installed,
): Promise<AttemptResult> {
  const post = ({ token, isShared }: { token: string; isShared: boolean }) => {
    const draft = addressedDraft(attempt.content, withAccess(token));
    return dispatch(deps, attempt, isShared ? target : ofOneToken(target), draft);
  };
  if (access.kind !== 'token') return withoutAccess(context, deps, target, access);
  const first = await post(access);
  if (first.kind !== 'done' || first.outcome.kind !== 'retry' || first.outcome.code !== TOKEN_EXPIRED)
    return first;
  const renewed = await installationToken(context, installation, { expired: access.token });
  if (renewed.kind !== 'token') return withoutAccess(context, deps, target, renewed);
  return post(renewed);
}

/**
 * Leaves out the installation, so that a rejection discards this token alone. An installation that a user has
 * stated does not stand for the tokens of others, who may post through one that works.
 */
function ofOneToken(target: Target): Target {
  if (target.token === undefined) return target;
  const { installationId: _all, ...token } = target.token;
  return { ...target, token };
}

/** The code by which providers with installations report an expired access token. */
const TOKEN_EXPIRED = 'token_expired';

/** There is no access token: for now, or until the app is installed again. */
function withoutAccess(
  { clock }: LineContext,
  deps: SendDeps,
  target: Target,
  access: Exclude<InstallationToken, { kind: 'token' }>,
): AttemptResult {
  const { token } = target;
  const { reason } = access;
  if (access.kind === 'retry') {
    const { retryAfterMs } = access;
    return notTried(target, { kind: 'retry', reason, retryAfterMs, ambiguous: false });
  }
  if (access.kind === 'unreadable') return notTried(target, unreadable('installation', reason));
  const { code } = access;
  // The credentials of the app are in its config.
  const unreadableConfig = target.integrations[0]?.unreadable;
  if (access.kind === 'config' && unreadableConfig !== undefined)
    return notTried(target, unreadable('config', unreadableConfig));
  if (access.kind === 'config') return notTried(target, { kind: 'rejected', scope: 'config', reason, code });
  // Only this user's token is discarded: other users may have an installation of their own.
  if (token !== undefined)
    deps.discarder.add([{ ...token, scope: 'token', goneAt: new Date(clock.now()), reason, code }]);
  return notTried(target, { kind: 'token_gone', scope: 'token', reason, code });
}

/** The result of a target for which no integration was tried. */
function notTried({ integrations: [integration] }: Target, outcome: SendOutcome): AttemptResult {
  if (integration === undefined) throw new Error('a target without an integration');
  return { kind: 'done', outcome, integration };
}

function rejectedAddress(
  result: AttemptResult,
  kind: RejectedAddress['kind'],
  address: string,
): RejectedAddress | undefined {
  if (result.kind !== 'done') return undefined;
  const { outcome } = result;
  if (outcome.kind !== 'rejected' || outcome.scope !== 'address') return undefined;
  return { kind, address, reason: outcome.reason };
}

function targetResult({ delayMs }: Attempt, { id: targetId }: Target, result: AttemptResult): TargetResult {
  const { ambiguousId } = result;
  if (result.kind === 'deferred') {
    const { untilMs, reason, waitsFor } = result;
    const other = waitsFor === 'server' ? undefined : waitsFor;
    return { targetId, kind: 'deferred', untilMs, reason, waitsFor: other, ambiguousId };
  }
  const { outcome, integration } = result;
  if (outcome.kind === 'sent') {
    const { providerId } = outcome;
    return { targetId, integration, kind: 'accepted', providerId: providerId && oneLine(providerId, 500) };
  }
  const { reason, code } = outcome;
  const failure = { targetId, integration, reason, code };
  if (outcome.kind === 'token_gone') return { ...failure, kind: 'gone' };
  if (outcome.kind === 'rejected') return { ...failure, kind: 'failed' };
  return { ...failure, ambiguousId, kind: 'retry', delayMs: retryDelay(delayMs, outcome.retryAfterMs) };
}

/** The provider's `Retry-After` in whole seconds, if it is longer than the job's own delay. */
function retryDelay(delayMs: number, retryAfterMs: number | undefined): number {
  if (retryAfterMs === undefined || !(retryAfterMs > delayMs)) return delayMs;
  return Math.min(Math.ceil(retryAfterMs / 1_000) * 1_000, LONGEST_DELAY_MS);
}
