import type { SendOutcome } from '../../../providers/provider.ts';
import type { GoneToken } from '../../people/tokens/gone-token.ts';
import { LONGEST_PAUSE_MS } from '../../setup/integrations/pauses.ts';

/**
 * The circuit breaker of an integration. Closed, it lets all messages through. Open, it lets none through
 * until `probeAtMs`; then half-open, one message at a time as a probe. Pure: a state and an event make the
 * next state. A permit of an earlier `epoch` was given before the state last changed, and its verdict is
 * ignored.
 */
export type CircuitBreaker = {
  readonly epoch: number;
  /** Users whose messages got no response since the last success: the first of them. */
  readonly userIds: readonly string[];
} /** `failures`: messages in a row that got no response. */ & (
  | { readonly state: 'closed'; readonly failures: number }
  | { readonly state: 'open'; readonly waitMs: number; readonly probeAtMs: number }
  /** Messages that come while the probe is in flight are deferred until `deferUntilMs`. */
  | { readonly state: 'half_open'; readonly waitMs: number; readonly deferUntilMs?: number }
);

/**
 * What the end of a send shows of the integration. `rejects_same_user` is for a probe alone: the same user
 * met the same failure before, so it may be the user's fault. The next probe then comes after the same wait,
 * not after a longer one.
 */
export type Verdict = 'works' | 'rejects' | 'rejects_same_user' | 'no_response' | 'inconclusive';

/** The right to one send. */
export interface BreakerPermit {
  readonly epoch: number;
}

export const CLOSED = closed(0);

/** A closed breaker without failures. */
export function closed(epoch: number): CircuitBreaker {
  return { epoch, state: 'closed', failures: 0, userIds: [] };
}

// In a row: a restart of the vendor takes fewer of an integration's messages, an outage takes them within
// seconds.
const FAILURES_IN_A_ROW = 20;
// They must be of several users: one whose device or mail server is broken must not stop the messages to all
// others, however often they are retried.
const SEVERAL_USERS = 3;
// A probe to any of these shows nothing new. Further ones are not remembered.
const MAX_USERS = FAILURES_IN_A_ROW;
// A vendor that does not respond may be back in a moment; a config waits for a person to repair it.
const FIRST_PROBE_MS = { no_response: 5_000, rejects: 60_000 };
// For how long messages are deferred while a probe is in flight. A response takes up to a minute, but most
// take far less. Messages that come within some seconds get the same time, so that they stay one job.
export const WHILE_PROBING_MS = 10_000;
const JITTER = 0.2;
const LAST_PROBE_MS = LONGEST_PAUSE_MS / (1 + JITTER);

/** Returns a permit for one send, or until when the message is deferred. */
export function admit(
  breaker: CircuitBreaker,
  nowMs: number,
  random: () => number = Math.random,
): { breaker: CircuitBreaker; permit: BreakerPermit } | { breaker: CircuitBreaker; untilMs: number } {
  if (breaker.state === 'closed') return { breaker, permit: breaker };
  if (breaker.state === 'half_open') {
    const whileMs = Math.min(WHILE_PROBING_MS, breaker.waitMs);
    const current = breaker.deferUntilMs ?? 0;
    const isCurrent = current >= nowMs + whileMs / 2 && current <= nowMs + longest(whileMs);
    const deferUntilMs = isCurrent ? current : nowMs + jittered(whileMs, random);
    return { breaker: { ...breaker, deferUntilMs }, untilMs: deferUntilMs };
  }
  const { epoch, waitMs, probeAtMs, userIds } = breaker;
  // Later than the longest pause: the clock was set back.
  const isDue = nowMs >= probeAtMs || probeAtMs > nowMs + LONGEST_PAUSE_MS;
  if (!isDue) return { breaker, untilMs: probeAtMs };
  const probing: CircuitBreaker = { epoch: epoch + 1, state: 'half_open', waitMs, userIds };
  return { breaker: probing, permit: probing };
}

/** Returns the state after the send to this user, which had this permit, has ended. */
export function afterSend(
  breaker: CircuitBreaker,
  permit: BreakerPermit,
  verdict: Verdict,
  { userId, nowMs, random = Math.random }: { userId: string; nowMs: number; random?: () => number },
): CircuitBreaker {
  if (permit.epoch !== breaker.epoch) return breaker;
  const epoch = breaker.epoch + 1;
  const isKnown = breaker.userIds.includes(userId);
  const userIds =
    verdict !== 'no_response' || isKnown || breaker.userIds.length >= MAX_USERS
      ? breaker.userIds
      : [...breaker.userIds, userId];
  const open = (waitMs: number, probeAtMs = nowMs + jittered(waitMs, random)): CircuitBreaker => ({
    ...{ epoch, state: 'open', waitMs, probeAtMs, userIds },
  });
  if (breaker.state === 'closed') {
    if (verdict === 'inconclusive' || verdict === 'rejects_same_user') return breaker;
    if (verdict === 'works') return breaker.failures === 0 ? breaker : closed(breaker.epoch);
    if (verdict === 'rejects') return open(FIRST_PROBE_MS.rejects);
    const failures = breaker.failures + 1;
    const isOutage = failures >= FAILURES_IN_A_ROW && userIds.length >= SEVERAL_USERS;
    return isOutage ? open(FIRST_PROBE_MS.no_response) : { ...breaker, failures, userIds };
  }
  if (breaker.state === 'open') return breaker; // has given no permit of this epoch
  if (verdict === 'works') return closed(epoch);
  // The probe has shown nothing: the next message may be a probe at once.
  if (verdict === 'inconclusive') return open(breaker.waitMs, nowMs);
  // Nor anything new: it may be the fault of this user.
  if (verdict === 'rejects_same_user' || (verdict === 'no_response' && isKnown)) return open(breaker.waitMs);
  return open(Math.min(Math.max(2 * breaker.waitMs, FIRST_PROBE_MS[verdict]), LAST_PROBE_MS));
}

/**
 * Returns an open breaker in place of a closed one, with the times of another node's, or of this one's before
 * the restart.
 */
export function reopened(
  { epoch, userIds }: CircuitBreaker,
  { waitMs, probeAtMs }: { waitMs: number; probeAtMs: number },
): CircuitBreaker {
  const bounded = Math.min(Math.max(waitMs, FIRST_PROBE_MS.no_response), LAST_PROBE_MS);
  return { epoch: epoch + 1, state: 'open', waitMs: bounded, probeAtMs, userIds };
}

/** A fifth more or less, so that integrations that stopped together do not probe together. */
function jittered(ms: number, random: () => number): number {
  return Math.round(ms * (1 - JITTER + 2 * JITTER * random()));
}

function longest(ms: number): number {
  return Math.round(ms * (1 + JITTER));
}

/**
 * What the end of a send shows of its integration. If the broadcast has an override for the provider, the
 * override itself may be what is rejected. The rejection of a single message or address shows nothing either:
 * the vendor may not even have been asked.
 */
export function verdictOf(outcome: SendOutcome, { overridden }: { overridden: boolean }): Verdict {
  switch (outcome.kind) {
    case 'sent':
      return 'works';
    case 'rejected': // for one that may be the recipient's fault see `mayBeConfig`
      return outcome.scope === 'config' && !overridden ? 'rejects' : 'inconclusive';
    case 'retry':
      return hasResponded(outcome) ? 'inconclusive' : 'no_response';
    case 'token_gone':
      // Some invalid tokens are recognized without asking the vendor.
      return 'inconclusive';
  }
}

/** Whether either a wrong setting or the recipient may have caused the failure. */
export function mayBeConfig(outcome: SendOutcome): boolean {
  return outcome.kind === 'rejected' && outcome.scope !== 'config' && outcome.suspect === 'config';
}

/**
 * "Later" may be a response: too many at once, or not to this mailbox now. A thousand of those in a row do
 * not mean that the integration is down. Vendors respond with a status of 4xx (HTTP and SMTP alike), a time,
 * or a code of their own.
 */
function hasResponded({
  ambiguous,
  code = '',
  retryAfterMs,
}: Extract<SendOutcome, { kind: 'retry' }>): boolean {
  if (ambiguous) return false;
  return retryAfterMs !== undefined || /^4\d\d\b/.test(code) || RESPONSES.test(code);
}

/** Codes for too many messages, or for a key that has to be renewed first. */
const RESPONSES = /rate|limit|thrott|quota|exhausted|too_?many|expired|^20429$/i;

// A wrong setting fails for every user. That ten users in a row fail by their own fault hardly happens.
const USERS_IN_A_ROW = 10;
// A user may have a hundred tokens per channel, and each of them may be invalid.
const MAX_TOKENS = 200;

/**
 * Failures of an integration since its last success that either a wrong setting or a single recipient can
 * cause. They are counted by user: users choose their own numbers, addresses and devices, and must not stop
 * the messages to all others.
 */
export interface Suspicion {
  readonly userIds: Set<string>;
  /** Tokens by their ids that the provider reports as gone, as it would with a wrong config. */
  readonly tokens: Map<string, GoneToken>;
}

export function newSuspicion(): Suspicion {
  return { userIds: new Set(), tokens: new Map() };
}

/**
 * Adds a user whose message met such a failure. Returns `config_at_fault` if that makes too many users in a
 * row, and `repeated` if the user was counted before, which shows nothing new.
 */
export function addFailure(
  { userIds, tokens }: Suspicion,
  userId: string,
): 'counted' | 'repeated' | 'config_at_fault' {
  if (userIds.has(userId)) return 'repeated';
  userIds.add(userId);
  if (userIds.size < USERS_IN_A_ROW) return 'counted';
  tokens.clear(); // they may be valid
  return 'config_at_fault';
}

/** Keeps a token until the integration has a success; each once, with the last report of it. */
export function keepToken({ tokens }: Suspicion, gone: GoneToken): void {
  if (tokens.size < MAX_TOKENS || tokens.has(gone.tokenId)) tokens.set(gone.tokenId, gone);
}

/** A success has shown that the config is right. Returns the tokens to discard, and ends the suspicion. */
export function endSuspicion({ userIds, tokens }: Suspicion): GoneToken[] {
  const gone = [...tokens.values()];
  tokens.clear();
  userIds.clear();
  return gone;
}
