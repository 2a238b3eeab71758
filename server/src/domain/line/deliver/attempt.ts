import { oneLine } from '../../../lib/one-line.ts';
import type { Rejection, SendOutcome, SlackMessage } from '../../../providers/provider.ts';
import { type InstallationToken, installationToken } from '../../people/installations/token.ts';
import type { GoneToken } from '../../people/tokens/gone-token.ts';
import type { OpenedIntegration } from '../../setup/integrations/of-project.ts';
import type { LineContext } from '../context/context.ts';
import { cannotOpen } from '../sending/cannot-open.ts';
import type { About, Dispatched, Senders } from '../sending/senders.ts';
import type { Result } from './conclude.ts';
import { contentOf, emailMessage, type Mailing, type Message, teamsMessage } from './messages.ts';
import type { ByBot, Target } from './targets.ts';
import { MAX_UNSURE, type TextMark, type TextMarker } from './text-marks.ts';

// A provider that asks for more is asked again all the same: it may have erred.
const LONGEST_DELAY_MS = 3_600_000;

/** What an attempt needs of the world. */
export interface Engine {
  senders: Pick<Senders, 'send'>;
  marker: Pick<TextMarker, 'mark'>;
  /** Takes tokens that are no more. */
  onTokensGone(gone: readonly GoneToken[]): void;
}

/** An attempt to bring a delivery to its targets. */
export interface Attempt {
  message: Message;
  mailing: Mailing;
  /** Where the vendor can report on the message. */
  receiptUrl(integration: OpenedIntegration): string | undefined;
  /** The wait of all that the provider names no time for, so that they come back as one batch. */
  ownDelayMs: number;
  /** The delivery, if it is by text message: it is marked before it is sent. */
  text: TextMark | undefined;
}

/** What became of a target, and what was refused as an address on the way. */
export interface Attempted {
  result: Result;
  refused: { kind: 'email' | 'phone'; address: string; reason: string }[];
  /** It may have been sent, or not: see text-marks.ts. */
  ambiguous: boolean;
  /** It was marked as about to be sent. */
  marked: boolean;
}

/** Brings a message to one target. Never rejects for what a vendor, the network or an address does. */
export async function attemptTarget(
  context: LineContext,
  engine: Engine,
  attempt: Attempt,
  target: Target,
): Promise<Attempted> {
  const { to } = target;
  if (to.channel === 'sms') return attemptNumbers(context, engine, attempt, target);
  const dispatched = await dispatch(context, engine, attempt, target);
  const refused =
    to.channel === 'email' && isRefusedAddress(dispatched)
      ? [{ kind: 'email' as const, address: to.email, reason: dispatched.outcome.reason }]
      : [];
  const result = resultOf(attempt, target, dispatched);
  return { result, refused, ambiguous: isAmbiguous(dispatched), marked: false };
}

/** The next number is tried where one is refused: nothing was sent to that. */
async function attemptNumbers(
  { clock }: LineContext,
  { senders, marker }: Engine,
  attempt: Attempt,
  target: Target,
): Promise<Attempted> {
  const { to: destination } = target;
  const { text } = attempt;
  if (text === undefined) throw new Error('a text message that cannot be marked');
  const numbers = destination.channel === 'sms' ? destination.numbers : [];
  const refused: Attempted['refused'] = [];
  let marks: number | undefined;
  // One mark for the attempt: another number or integration follows only if nothing was sent before.
  const beforeSend = async () => {
    marks ??= await marker.mark(text);
    return marks === undefined ? NOT_A_THIRD_TIME : undefined;
  };
  let dispatched: Dispatched | undefined;
  for (const number of numbers) {
    const to = number.replace(/[^+0-9]/g, '');
    dispatched = await senders.send(
      'sms',
      target.integrations,
      (integration) => {
        const receiptUrl = attempt.receiptUrl(integration);
        const content = contentOf(attempt.message, integration);
        return { ...content, to, ...(receiptUrl === undefined ? {} : { receiptUrl }) };
      },
      { ...aboutOf(attempt, target, to), beforeSend },
    );
    if (!isRefusedAddress(dispatched)) break;
    refused.push({ kind: 'phone', address: number, reason: dispatched.outcome.reason });
  }
  if (dispatched === undefined) throw new Error('a delivery by text message without a number');
  const ambiguous = isAmbiguous(dispatched);
  const held = dispatched.kind === 'held' ? dispatched : undefined;
  // One that was refused was an attempt, and has to be known before the next: else it would be tried first
  // again, and take the other's turn.
  const result: Result =
    held !== undefined && refused.length > 0
      ? {
          kind: 'retry',
          targetId: target.id,
          delayMs: Math.max(0, held.untilMs - clock.now()),
          reason: held.reason,
        }
      : resultOf(attempt, target, dispatched);
  const of = { refused, ambiguous, marked: marks !== undefined };
  if (!ambiguous || (marks ?? 0) < MAX_UNSURE) return { result, ...of };
  return { result: sentTooOften(result), ...of };
}

const NOT_A_THIRD_TIME: Rejection = {
  kind: 'rejected',
  scope: 'message',
  code: 'ambiguous',
  reason: 'whether it was sent is not known, and it is not sent a third time',
};

function sentTooOften(result: Result): Result {
  const { targetId, integration } = result;
  const reason = 'reason' in result ? `: ${result.reason}` : '';
  return {
    kind: 'failed',
    targetId,
    ...(integration === undefined ? {} : { integration }),
    code: 'ambiguous',
    reason: `${NOT_A_THIRD_TIME.reason}${reason}`,
  };
}

async function dispatch(
  context: LineContext,
  engine: Engine,
  attempt: Attempt,
  target: Target,
): Promise<Dispatched> {
  const { message, mailing } = attempt;
  const { to, integrations } = target;
  const about = aboutOf(attempt, target, target.id);
  const { senders } = engine;
  switch (to.channel) {
    case 'email':
      return senders.send(
        'email',
        integrations,
        (integration) => emailMessage(message, { email: to.email, integration, mailing }),
        about,
      );
    case 'mobile_push':
      return senders.send(
        'mobile_push',
        integrations,
        (integration) => ({ ...contentOf(message, integration), token: to.device, badge: to.badge }),
        about,
      );
    case 'web_push':
      return senders.send(
        'web_push',
        integrations,
        (integration) => ({ ...contentOf(message, integration), endpoint: to.endpoint, keys: to.keys }),
        about,
      );
    case 'teams':
      return senders.send(
        'teams',
        integrations,
        (integration) => teamsMessage(message, integration, to.webhookUrl),
        about,
      );
    case 'slack':
      return 'webhookUrl' in to.at
        ? post(engine, attempt, target, to.at, about)
        : postByBot(context, engine, attempt, target, to.at, about);
    case 'unreadable':
      return cannotReach(target, cannotOpen('token', TOKEN_UNREADABLE));
    case 'sms':
      throw new Error('text messages are sent number by number');
  }
}

const TOKEN_UNREADABLE =
  'The token cannot be opened: it was sealed with a key that this server does not have. Add that key to SECRET_KEY, or save the token again';

function post(
  { senders }: Engine,
  { message }: Attempt,
  { integrations }: Target,
  to: SlackMessage['to'],
  about: About,
): Promise<Dispatched> {
  const make = (integration: Parameters<typeof contentOf>[1]) => ({ ...contentOf(message, integration), to });
  return senders.send('slack', integrations, make, about);
}

/** With the token that is at hand and, where Slack calls that expired, once more with a new one. */
async function postByBot(
  context: LineContext,
  engine: Engine,
  attempt: Attempt,
  target: Target,
  { channelId, installation, access }: ByBot,
  about: About,
): Promise<Dispatched> {
  if (access.kind !== 'token') return withoutToken(context, engine, target, access);
  const { token: accessToken } = access;
  const first = await post(engine, attempt, target, { channelId, accessToken }, about);
  if (first.kind !== 'done' || first.outcome.kind !== 'retry' || first.outcome.code !== TOKEN_EXPIRED)
    return first;
  const renewed = await installationToken(context, installation, { expired: accessToken });
  if (renewed.kind !== 'token') return withoutToken(context, engine, target, renewed);
  return post(engine, attempt, target, { channelId, accessToken: renewed.token }, about);
}

const TOKEN_EXPIRED = 'token_expired';

/** What became of a target that no integration was asked for. */
function cannotReach({ integrations: [integration] }: Target, outcome: SendOutcome): Dispatched {
  if (integration === undefined) throw new Error('a target without an integration');
  return { kind: 'done', outcome, integration };
}

/** There is no token to post with: now, or until somebody installs the app anew. */
function withoutToken(
  { clock }: LineContext,
  engine: Engine,
  target: Target,
  access: Exclude<InstallationToken, { kind: 'token' }>,
): Dispatched {
  const { token } = target;
  const { reason } = access;
  const done = (outcome: SendOutcome) => cannotReach(target, outcome);
  if (access.kind === 'retry')
    return done({ kind: 'retry', reason, retryAfterMs: access.retryAfterMs, ambiguous: false });
  if (access.kind === 'unreadable') return done(cannotOpen('installation', reason));
  const { code } = access;
  // The credentials of the app are in its config.
  const unreadable = target.integrations[0]?.unreadable;
  if (access.kind === 'config' && unreadable !== undefined) return done(cannotOpen('config', unreadable));
  if (access.kind === 'config') return done({ kind: 'rejected', scope: 'config', reason, code });
  // Of an installation only this user's token goes: others may have one of their own.
  if (token !== undefined)
    engine.onTokensGone([{ ...token, scope: 'token', goneAt: new Date(clock.now()), reason, code }]);
  return done({ kind: 'token_gone', scope: 'token', reason, code });
}

/** What of a target nobody is to read in an event. */
export function secretsOf({ to }: Target): readonly string[] {
  switch (to.channel) {
    case 'mobile_push':
      return [to.device.deviceToken];
    case 'web_push':
      return [to.endpoint];
    case 'slack':
      return 'webhookUrl' in to.at ? [to.at.webhookUrl] : [];
    case 'teams':
      return to.webhookUrl === undefined ? [] : [to.webhookUrl];
    case 'email':
      return [to.email];
    case 'sms':
      return to.numbers;
    case 'unreadable':
      return [];
  }
}

function aboutOf({ message }: Attempt, target: Target, part: string): About {
  const { to, token } = target;
  const { said } = message;
  const characters =
    'email' in said
      ? said.email.htmlBefore.length + said.email.htmlAfter.length + said.email.text.length
      : said.title.length + said.text.length + (said.content?.length ?? 0);
  return {
    targetId: `${message.id}.${to.channel}.${part}`,
    userId: message.user.id,
    weight: characters,
    secrets: secretsOf(target),
    ...(token === undefined ? {} : { token }),
  };
}

function isRefusedAddress(
  dispatched: Dispatched,
): dispatched is Extract<Dispatched, { kind: 'done' }> & { outcome: Rejection } {
  return (
    dispatched.kind === 'done' &&
    dispatched.outcome.kind === 'rejected' &&
    dispatched.outcome.scope === 'address'
  );
}

function isAmbiguous(dispatched: Dispatched): boolean {
  return dispatched.kind === 'done' && dispatched.outcome.kind === 'retry' && dispatched.outcome.ambiguous;
}

function resultOf({ ownDelayMs }: Attempt, { id: targetId }: Target, dispatched: Dispatched): Result {
  if (dispatched.kind === 'held') return { ...dispatched, targetId };
  const { outcome, integration } = dispatched;
  const of = { targetId, integration };
  if (outcome.kind === 'sent') {
    const { providerId } = outcome;
    return {
      ...of,
      kind: 'accepted',
      ...(providerId === undefined ? {} : { providerId: oneLine(providerId, 500) }),
    };
  }
  const { reason, code } = outcome;
  const said = { ...of, reason, ...(code === undefined ? {} : { code }) };
  if (outcome.kind === 'token_gone') return { ...said, kind: 'gone' };
  if (outcome.kind === 'rejected') return { ...said, kind: 'failed' };
  return { ...said, kind: 'retry', delayMs: retryDelay(ownDelayMs, outcome.retryAfterMs) };
}

/**
 * What the provider asks for, in whole seconds, where that is longer than the own wait. The others of a job
 * wait as long, and stay one.
 */
function retryDelay(ownDelayMs: number, retryAfterMs: number | undefined): number {
  if (retryAfterMs === undefined || !(retryAfterMs > ownDelayMs)) return ownDelayMs;
  return Math.min(Math.ceil(retryAfterMs / 1_000) * 1_000, LONGEST_DELAY_MS);
}
