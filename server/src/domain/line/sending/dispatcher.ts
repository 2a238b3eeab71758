import { isTracing, traced } from '../../../lib/tracing.ts';
import { waitMs } from '../../../lib/wait.ts';
import { withoutAddress } from '../../../lib/without-address.ts';
import { isRejection, type Message, type SendOutcome } from '../../../providers/provider.ts';
import type { TokenRef } from '../../people/tokens/gone-token.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import type { PauseRecorder } from '../../setup/integrations/pause-recorder.ts';
import type { CancelledBroadcasts } from '../context/cancelled-broadcasts.ts';
import type { Draft } from '../rendering/message.ts';
import { ChannelConnection, type ConnectionDeps } from './connection.ts';
import { type Admitted, IntegrationHealth, type IntegrationHealthDeps } from './integration-health.ts';
import { RateLimiter, STALE_PERMIT_MS } from './rate-limiter.ts';
import type { SharedRateLimiter } from './shared-rate-limiter.ts';
import type { TextSend } from './text-marks.ts';

/** A message to send to one target. */
export interface SendRequest {
  /** The integrations that can send it, in the order of failover: at least one. */
  integrations: readonly OpenedIntegration[];
  draft: Draft;
  /** Identifies the target in every attempt: the ids of the notification and of the token or the address. */
  targetId: string;
  /** The integration that may have sent the message at the last attempt. */
  ambiguousId?: string | undefined;
  /** Its broadcast: nothing more is sent of a cancelled one. */
  broadcastId: string;
  /** The delivery was deferred or tried before. */
  hasReturned?: boolean;
  /** See `Admitted`. */
  userId: string;
  /** Characters of the message that are in memory while it is sent. */
  weight: number;
  /** The token that it is sent to, if it is sent to one. */
  token?: TokenRef | undefined;
  /** The address, number or token itself: removed from what the provider says, which is kept in events. */
  identifiers?: readonly string[];
  /** Only for a text message, which is marked right before it is sent. */
  text?: TextSend | undefined;
}

/** The result of an attempt to send a message over one integration. */
export type AttemptResult = (
  | { kind: 'done'; outcome: SendOutcome; integration: OpenedIntegration }
  /**
   * Nothing was tried, and it does not count as an attempt. The message waits for a permit of the rate
   * limiter (`rate`), for the integration to work again, or for this server.
   */
  | { kind: 'deferred'; untilMs: number; reason: string; waitsFor: 'rate' | 'integration' | 'server' }
) & {
  /** The integration that may have sent the message, now or before: the next attempt goes the same way. */
  ambiguousId?: string;
};

export type DispatcherDeps = ConnectionDeps &
  IntegrationHealthDeps & {
    /** While it is blocked nothing is sent, because the outcome could not be written. */
    recorder: { readonly isBlocked: boolean };
    cancelled: Pick<CancelledBroadcasts, 'has'>;
    pauses: Pick<PauseRecorder, 'claimProbe'>;
    /** The limiter that all nodes share; by default one of this dispatcher alone. */
    rateLimiter?: RateLimiter | SharedRateLimiter;
  };

// For how long messages are deferred that must not be sent while outcomes cannot be written.
const BLOCKED_DEFERRAL_MS = 1_000;
// A connection that was not used for this long is closed. Its sockets are closed much earlier.
const IDLE_MS = 10 * 60_000;

/**
 * Sends messages over a channel's integrations: integration health, rate limiter and connection in this
 * order, and the next integration if one cannot send. Keeps one connection for each integration, and replaces
 * it when the integration's config changes.
 */
export class Dispatcher {
  /** Whether the integrations work. Other nodes share it (pause-follower.ts). */
  readonly health: IntegrationHealth;
  readonly #deps: DispatcherDeps;
  readonly #connections = new Map<string, ChannelConnection>();
  readonly #rateLimiter: RateLimiter | SharedRateLimiter;
  readonly #timer: NodeJS.Timeout;
  #closed = false;

  constructor(deps: DispatcherDeps) {
    this.#deps = deps;
    this.health = new IntegrationHealth(deps);
    this.#rateLimiter = deps.rateLimiter ?? new RateLimiter();
    this.#timer = setInterval(() => this.#closeIdle(), IDLE_MS / 10);
    this.#timer.unref();
  }

  /** Sends to one target over the first integration that can. Rejects only for a bug of ours. */
  async send(request: SendRequest): Promise<AttemptResult> {
    const { integrations, ambiguousId: before } = request;
    const results: AttemptResult[] = [];
    for (const integration of ambiguousFirst(before, integrations)) {
      const result = await this.#sendOver(integration, request);
      results.push(result);
      if (!mayFailOver(result, integration.id === before)) break;
    }
    const result = decisiveResult(results);
    // A second integration is tried only after the ambiguous one rejected its config.
    const ambiguousId = ambiguousAfter(result, results.length > 1 ? undefined : before);
    return ambiguousId === undefined ? result : { ...result, ambiguousId };
  }

  /** Sends nothing more. Messages in flight have `graceMs` to finish; those that wait are deferred. */
  async close(options: { graceMs?: number } = {}): Promise<void> {
    clearInterval(this.#timer);
    this.#closed = true;
    await Promise.all([...this.#connections.values()].map((connection) => connection.close(options)));
  }

  async #sendOver(given: OpenedIntegration, request: SendRequest): Promise<AttemptResult> {
    if (given.unreadable !== undefined) return done(unreadable('config', given.unreadable), given);
    for (;;) {
      if (this.#closed) return this.#stopping();
      const result = await this.#sendThrough(this.#connectionOf(request.draft.channel, given), request);
      if (result !== REPLACED) return result;
    }
  }

  async #sendThrough(
    connection: ChannelConnection,
    request: SendRequest,
  ): Promise<AttemptResult | typeof REPLACED> {
    const { integration, provider } = connection;
    // Rendered before the wait only if the wait depends on the message. Otherwise messages that wait take no
    // memory.
    const early = connection.isRoutedByMessage ? request.draft.render(integration) : undefined;
    if (early !== undefined && isRejection(early)) return done(early, integration);
    const host = early === undefined ? '' : (provider.downstreamHost?.(early) ?? '');

    const pausedUntilMs = this.health.pausedUntil(integration, host);
    if (pausedUntilMs !== undefined) return paused(pausedUntilMs);
    const deferredUntilMs = await this.#waitForPermit(connection, request, early);
    if (deferredUntilMs !== undefined) return deferred(deferredUntilMs, RATE_LIMITED, 'rate');
    const room = await connection.acquire(host, request.weight);
    if (room === 'closed') return REPLACED;
    if (room === 'stalled') return deferred(connection.stalledUntilMs(), STALLED, 'integration');
    try {
      return await this.#sendNow(connection, request, host, early);
    } finally {
      connection.release(request.weight);
    }
  }

  /** Waits for a permit of the rate limiter. Resolves with a time to defer the message if there is none. */
  async #waitForPermit(
    connection: ChannelConnection,
    { targetId, hasReturned }: SendRequest,
    early: Message | undefined,
  ): Promise<number | undefined> {
    const { clock } = this.#deps;
    const limits = connection.limitsOf(early);
    const permit = await this.#rateLimiter.take(limits, targetId, clock.now(), hasReturned);
    if ('deferredUntilMs' in permit) return permit.deferredUntilMs;
    if (permit.waitMs === 0) return undefined;
    const validUntilMs = performance.now() + permit.waitMs + STALE_PERMIT_MS;
    await waitMs(permit.waitMs);
    return performance.now() > validUntilMs ? clock.now() : undefined;
  }

  /** Sends a message that has a permit and room. The circumstances may have changed while it waited. */
  async #sendNow(
    connection: ChannelConnection,
    request: SendRequest,
    host: string,
    early: Message | undefined,
  ): Promise<AttemptResult | typeof REPLACED> {
    const { integration } = connection;
    if (this.#closed) return this.#stopping();
    if (this.#deps.recorder.isBlocked)
      return deferred(this.#deps.clock.now() + BLOCKED_DEFERRAL_MS, BLOCKED, 'server');
    if (this.#deps.cancelled.has(request.broadcastId))
      return deferred(this.#deps.clock.now(), CANCELLED, 'server');
    const admitted = this.health.admit(integration, host, request.userId);
    if ('untilMs' in admitted) return paused(admitted.untilMs);
    let isRecorded = false;
    try {
      const untilMs = admitted.isProbe ? await this.#claimProbe(admitted) : undefined;
      if (untilMs !== undefined) return paused(this.health.yieldProbe(admitted, untilMs));
      const message = early ?? request.draft.render(integration);
      if (isRejection(message)) return done(message, integration);
      const rejection = await request.text?.begin();
      if (rejection !== undefined) return done(rejection, integration);
      const outcome = withoutIdentifiers(await transmit(connection, host, message), request);
      if (connection.isClosed || this.#closed) return this.#afterClose(done(outcome, integration));
      isRecorded = true;
      const { token } = request;
      const overridden = message.override !== undefined;
      return done(this.health.record(admitted, outcome, { token, overridden }), integration);
    } finally {
      if (!isRecorded) this.health.withdraw(admitted);
    }
  }

  /**
   * A failure on a connection that was closed meanwhile is not the integration's fault. If nothing was sent,
   * it does not count as an attempt.
   */
  #afterClose(result: AttemptResult): AttemptResult | typeof REPLACED {
    if (!mayFailOver(result)) return result;
    return this.#closed ? this.#stopping() : REPLACED;
  }

  /** Resolves with undefined if this node may probe the integration, else with the end of the pause. */
  async #claimProbe({
    integration: { projectId, id, version },
    host,
  }: Admitted): Promise<number | undefined> {
    const key = { projectId, integrationId: id, host };
    try {
      return await this.#deps.pauses.claimProbe(key, version);
    } catch {
      return this.#deps.clock.now(); // the database cannot be reached, which other parts log
    }
  }

  #stopping(): AttemptResult {
    return deferred(this.#deps.clock.now(), STOPPING, 'server');
  }

  #connectionOf(channel: Draft['channel'], integration: OpenedIntegration): ChannelConnection {
    const key = `${integration.projectId}:${integration.id}`;
    const known = this.#connections.get(key);
    // A caller that has read an older config sends with the newer one too: with two connections at work,
    // each message would close the other's.
    if (known !== undefined && known.integration.version >= integration.version) return known;
    const connection = new ChannelConnection(this.#deps, channel, integration);
    void known?.close();
    this.#connections.set(key, connection);
    return connection;
  }

  #closeIdle(): void {
    for (const [key, connection] of this.#connections) {
      if (!connection.isIdle(IDLE_MS)) continue;
      this.#connections.delete(key);
      void connection.close();
    }
  }
}

/**
 * The outcome if this server cannot decrypt what it needs. Later it may have the key, or a server that has it
 * makes the attempt.
 */
export function unreadable(
  what: 'config' | 'token' | 'installation',
  reason: string,
): Extract<SendOutcome, { kind: 'retry' }> {
  return { kind: 'retry', code: `${what}_unreadable`, reason, ambiguous: false };
}

/** The order of failover; but first the integration that may have sent the last attempt, if there is one. */
function ambiguousFirst(
  ambiguousId: string | undefined,
  integrations: readonly OpenedIntegration[],
): readonly OpenedIntegration[] {
  if (ambiguousId === undefined) return integrations;
  return integrations.toSorted((a, b) => Number(b.id === ambiguousId) - Number(a.id === ambiguousId));
}

/**
 * Whether the channel's next integration may be tried. Not after this one may have sent the message, now or
 * at the last attempt (`wasAmbiguous`), unless it rejects its config. Not if the message or the address is
 * rejected for good. And not if the message only waits for a permit.
 */
export function mayFailOver(result: AttemptResult, wasAmbiguous = false): boolean {
  if (result.kind === 'deferred') return !wasAmbiguous && result.waitsFor === 'integration';
  const { outcome } = result;
  if (outcome.kind === 'retry') return !wasAmbiguous && !outcome.ambiguous;
  return outcome.kind === 'rejected' && (outcome.scope === 'config' || outcome.suspect === 'config');
}

/** The integration that may have sent the message: at this attempt, or still since an earlier one. */
function ambiguousAfter(result: AttemptResult, before: string | undefined): string | undefined {
  if (result.kind === 'deferred') return before;
  const { outcome, integration } = result;
  if (outcome.kind !== 'retry') return undefined;
  return outcome.ambiguous ? integration.id : before;
}

/**
 * The result that counts, of those of the integrations in their order: one that ends the delivery, else the
 * first retry, else the earliest deferral, else the first rejection.
 */
export function decisiveResult(results: readonly AttemptResult[]): AttemptResult {
  const [first] = results;
  if (first === undefined) throw new Error('no integration was tried');
  const ending = results.find((one) => one.kind === 'done' && !mayFailOver(one));
  const retry = results.find((one) => one.kind === 'done' && one.outcome.kind === 'retry');
  return ending ?? retry ?? earliestDeferral(results) ?? first;
}

function earliestDeferral(results: readonly AttemptResult[]): AttemptResult | undefined {
  return results
    .filter((one) => one.kind === 'deferred')
    .reduce<Extract<AttemptResult, { kind: 'deferred' }> | undefined>(
      (earliest, one) => (earliest === undefined || one.untilMs < earliest.untilMs ? one : earliest),
      undefined,
    );
}

/**
 * Gives a message to the provider. A span has its outcome; the transport adds one for each request. Reasons
 * are left out: vendors may repeat an address in them.
 */
function transmit(connection: ChannelConnection, host: string, message: Message): Promise<SendOutcome> {
  if (!isTracing()) return connection.send(host, message);
  const { provider, integration } = connection;
  const attributes = { 'belfry.provider': provider.name, 'belfry.integration.id': integration.id };
  return traced(`send ${provider.name}`, { attributes }, async (span) => {
    const outcome = await connection.send(host, message);
    span?.set({ 'belfry.outcome': outcome.kind });
    if (outcome.kind !== 'sent') span?.fail(outcome.code ?? outcome.kind);
    return outcome;
  });
}

/** The connection was replaced while the message waited: the new one sends it. */
const REPLACED = Symbol('replaced');
const RATE_LIMITED = 'the rate limit is reached';
const PAUSED = 'the integration is paused';
const STALLED = 'the provider has not responded to earlier messages yet';
const STOPPING = 'the server is stopping';
const CANCELLED = 'the broadcast was cancelled';
const BLOCKED = 'the database cannot be written to';

function done(outcome: SendOutcome, integration: OpenedIntegration): AttemptResult {
  return { kind: 'done', outcome, integration };
}

function deferred(
  untilMs: number,
  reason: string,
  waitsFor: 'rate' | 'integration' | 'server',
): AttemptResult {
  return { kind: 'deferred', untilMs, reason, waitsFor };
}

function paused(untilMs: number): AttemptResult {
  return deferred(untilMs, PAUSED, 'integration');
}

function withoutIdentifiers(outcome: SendOutcome, { identifiers = [] }: SendRequest): SendOutcome {
  if (outcome.kind === 'sent' || identifiers.length === 0) return outcome;
  return { ...outcome, reason: withoutAddress(outcome.reason, identifiers) };
}
