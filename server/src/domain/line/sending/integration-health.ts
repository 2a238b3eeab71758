import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Clock } from '../../../lib/clock.ts';
import { oneLine } from '../../../lib/one-line.ts';
import { wireNameOf } from '../../../providers/index.ts';
import type { SendOutcome } from '../../../providers/provider.ts';
import type { TokenDiscarder } from '../../people/tokens/discard-gone.ts';
import type { GoneToken, TokenRef } from '../../people/tokens/gone-token.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import type { IntegrationEvent, PauseRecorder } from '../../setup/integrations/pause-recorder.ts';
import { nameOf, type Pause, type PauseKey } from '../../setup/integrations/pauses.ts';
import {
  addFailure,
  admit,
  afterSend,
  type BreakerPermit,
  type CircuitBreaker,
  CLOSED,
  closed,
  endSuspicion,
  keepToken,
  mayBeConfig,
  newSuspicion,
  reopened,
  type Suspicion,
  type Verdict,
  verdictOf,
  WHILE_PROBING_MS,
} from './circuit-breaker.ts';

export interface IntegrationHealthDeps {
  clock: Clock;
  /** The word that replaces the brand in names of integrations. */
  config: { BRAND: string };
  /** Discards tokens that are certain to be gone. */
  discarder: Pick<TokenDiscarder, 'add'>;
  /**
   * Writes the pauses for other nodes, with an event when one begins or ends: also each time that a probe
   * fails and an integration stays paused.
   */
  pauses: Pick<PauseRecorder, 'paused' | 'resumed' | 'released'>;
}

/** A send that was let through. */
export interface Admitted {
  integration: OpenedIntegration;
  /** See `Provider.downstreamHost`; '' if the integration has one downstream host. */
  host: string;
  /** The recipient: failures that a recipient can cause are counted by user. */
  userId: string;
  permit: BreakerPermit;
  /** The integration is paused, and this message probes it. */
  isProbe: boolean;
}

/** What has to be known of a message to judge its outcome. */
export interface SentMessage {
  /** The token that it was sent to, if it was sent to one. */
  token?: TokenRef | undefined;
  /** The broadcast has an override for the provider. */
  overridden: boolean;
}

/** The health of an integration, or of one of its downstream hosts, since the first failure. */
interface Health {
  key: PauseKey;
  version: string;
  breaker: CircuitBreaker;
  /** The version with which its pause was reported last; undefined after its end was reported. */
  reportedVersion?: string | undefined;
  /** Since when it works again after a pause. */
  resumedAtMs?: number;
}

// The least recently used are dropped. An entry takes 300 bytes; a suspicion has up to 200 tokens of 500
// bytes.
const MAX_HEALTHS = 20_000;
const MAX_SUSPICIONS = 2_000;

/**
 * The health of all integrations: their circuit breakers, and tokens that may be gone. It is in the memory of
 * this process, and takes none for integrations that never failed.
 */
export class IntegrationHealth {
  readonly #deps: IntegrationHealthDeps;
  readonly #healths = new LRUCache<string, Health>(cacheLimit(MAX_HEALTHS));
  readonly #suspicions = new LRUCache<string, { version: string; suspicion: Suspicion }>(
    cacheLimit(MAX_SUSPICIONS),
  );

  constructor(deps: IntegrationHealthDeps) {
    this.#deps = deps;
  }

  /**
   * Adopts pauses that were written by other nodes, or by this one before it was restarted. Ignores those
   * that it knows with that time or a later one, and those that ended here since.
   */
  adopt(pauses: readonly Pause[]): void {
    for (const pause of pauses) {
      const { projectId, integrationId, host, version, sinceMs, untilMs } = pause;
      const known = this.#healths.get(nameOf(pause));
      if (known !== undefined) {
        const { breaker, resumedAtMs = 0 } = known;
        const isOlder = version < known.version || untilMs <= resumedAtMs;
        const isKnown =
          breaker.state === 'half_open' || (breaker.state === 'open' && untilMs <= breaker.probeAtMs);
        if (isOlder || (version === known.version && isKnown)) continue;
      }
      const breaker = reopened(known?.breaker ?? CLOSED, { waitMs: untilMs - sinceMs, probeAtMs: untilMs });
      this.#healths.set(nameOf(pause), {
        key: { projectId, integrationId, host },
        version,
        breaker,
        reportedVersion: version,
      });
    }
  }

  /** Closes the breakers of integrations that work again, as another node has found out. */
  resume(keys: readonly PauseKey[]): void {
    for (const key of keys) {
      const health = this.#healths.get(nameOf(key));
      if (health?.reportedVersion === undefined) continue;
      health.reportedVersion = undefined;
      health.resumedAtMs = this.#deps.clock.now();
      // The end of a probe in flight will count.
      if (health.breaker.state === 'open') health.breaker = closed(health.breaker.epoch + 1);
    }
  }

  /** The pauses that are known to all nodes. */
  pauses(): PauseKey[] {
    return [...this.#healths.values()].flatMap(({ key, reportedVersion }) =>
      reportedVersion === undefined ? [] : [key],
    );
  }

  /** Until when the integration is paused; undefined if it is not. Gives no permit yet. */
  pausedUntil(integration: OpenedIntegration, host: string): number | undefined {
    const health = this.#healthOf(integration, host);
    if (health === undefined) return undefined;
    const result = admit(health.breaker, this.#deps.clock.now());
    if (!('untilMs' in result)) return undefined;
    health.breaker = result.breaker;
    return result.untilMs;
  }

  /** Lets a message through, to be followed by `record` or `withdraw`; or returns until when to defer it. */
  admit(integration: OpenedIntegration, host: string, userId: string): Admitted | { untilMs: number } {
    const health = this.#healthOf(integration, host);
    const message = { integration, host, userId };
    if (health === undefined) return { ...message, permit: CLOSED, isProbe: false };
    const result = admit(health.breaker, this.#deps.clock.now());
    health.breaker = result.breaker;
    if (!('permit' in result)) return { untilMs: result.untilMs };
    return { ...message, permit: result.permit, isProbe: result.breaker.state === 'half_open' };
  }

  /**
   * Another node has the probe for which this message was let through, or has extended the pause. Returns
   * until when to defer the message.
   */
  yieldProbe({ integration, host, permit }: Admitted, untilMs: number): number {
    const health = this.#healthOf(integration, host);
    const deferUntilMs = Math.max(untilMs, this.#deps.clock.now() + WHILE_PROBING_MS);
    if (health?.breaker.state === 'half_open' && health.breaker.epoch === permit.epoch)
      health.breaker = reopened(health.breaker, { waitMs: health.breaker.waitMs, probeAtMs: deferUntilMs });
    return deferUntilMs;
  }

  /**
   * Records the outcome of a send for the breaker. Returns the outcome that counts: a rejected config, if the
   * tokens of so many users are rejected that they cannot all be gone.
   */
  record(admitted: Admitted, outcome: SendOutcome, message: SentMessage): SendOutcome {
    if (outcome.kind === 'token_gone' && message.token !== undefined)
      return this.#recordGoneToken(admitted, outcome, { ...message, token: message.token });
    if (outcome.kind === 'sent') this.#endSuspicion(admitted);
    const verdict = mayBeConfig(outcome)
      ? this.#addFailure(admitted, message.overridden)
      : verdictOf(outcome, { overridden: message.overridden });
    this.#update(admitted, verdict, outcome);
    return outcome;
  }

  /** The message was not sent after all. */
  withdraw(admitted: Admitted): void {
    this.#update(admitted, 'inconclusive');
  }

  #recordGoneToken(
    admitted: Admitted,
    outcome: Extract<SendOutcome, { kind: 'token_gone' }>,
    { token, overridden }: SentMessage & { token: TokenRef },
  ): SendOutcome {
    const { kind: _, suspect, ...details } = outcome;
    const gone: GoneToken = { ...token, ...details };
    if (suspect !== 'config') {
      this.#update(admitted, 'inconclusive');
      this.#deps.discarder.add([gone]);
      return outcome;
    }
    const verdict = this.#addFailure(admitted, overridden);
    if (verdict !== 'rejects') {
      // It may be discarded much later, and must not be if it was saved again by then.
      const goneAt = gone.goneAt ?? new Date(this.#deps.clock.now());
      keepToken(this.#suspicionOf(admitted.integration), { ...gone, goneAt });
      this.#update(admitted, verdict, outcome);
      return outcome;
    }
    const { reason, code } = details;
    const rejection: SendOutcome = {
      kind: 'rejected',
      scope: 'config',
      reason: `the tokens of many users are rejected in a row, so the config is wrong: ${reason}`,
      code,
    };
    this.#update(admitted, 'rejects', rejection);
    return rejection;
  }

  /**
   * What a failure shows that the recipient may have caused. An override may have caused it as well, and then
   * it shows nothing.
   */
  #addFailure({ integration, host, userId, permit }: Admitted, overridden: boolean): Verdict {
    if (overridden) return 'inconclusive';
    const finding = addFailure(this.#suspicionOf(integration), userId);
    if (finding === 'config_at_fault') return 'rejects';
    const breaker = this.#healthOf(integration, host)?.breaker;
    const isProbe = breaker?.state === 'half_open' && breaker.epoch === permit.epoch;
    if (!isProbe) return 'inconclusive';
    return finding === 'repeated' ? 'rejects_same_user' : 'rejects';
  }

  /** The config works, so the tokens that were reported as gone really are. */
  #endSuspicion({ integration }: Admitted): void {
    if (this.#suspicions.size === 0) return;
    const gone = endSuspicion(this.#suspicionOf(integration));
    this.#suspicions.delete(keyOf(integration));
    if (gone.length > 0) this.#deps.discarder.add(gone);
  }

  #update({ integration, host, userId, permit }: Admitted, verdict: Verdict, outcome?: SendOutcome): void {
    let health = this.#healthOf(integration, host);
    if (health === undefined) {
      if (verdict !== 'rejects' && verdict !== 'no_response') return;
      health = { key: pauseKeyOf(integration, host), version: integration.version, breaker: CLOSED };
      this.#healths.set(hostKeyOf(integration, host), health);
    }
    // The outcome is about a config that has been replaced.
    if (health.version > integration.version) return;
    const before = health.breaker;
    const wasProbe = before.state === 'half_open' && before.epoch === permit.epoch;
    if (wasProbe && verdict === 'inconclusive') this.#deps.pauses.released(pauseKeyOf(integration, host));
    health.breaker = afterSend(before, permit, verdict, { userId, nowMs: this.#deps.clock.now() });
    if (before.epoch !== health.breaker.epoch || verdict === 'works')
      this.#report(integration, host, health, { verdict, outcome });
  }

  /** Reports a pause, its end, and that it lasts. The event of a pause is recorded once for each config. */
  #report(
    integration: OpenedIntegration,
    host: string,
    health: Health,
    { verdict, outcome }: { verdict: Verdict; outcome: SendOutcome | undefined },
  ): void {
    const { breaker, reportedVersion } = health;
    const key = pauseKeyOf(integration, host);
    if (breaker.state === 'closed' && reportedVersion !== undefined && verdict === 'works') {
      health.reportedVersion = undefined;
      health.resumedAtMs = this.#deps.clock.now();
      const event = this.#event('integration.resumed', integration, host, { level: 'info' });
      this.#deps.pauses.resumed(key, event);
    }
    if (breaker.state !== 'open' || verdict === 'inconclusive') return;
    const isKnown = reportedVersion === integration.version;
    // If one of many downstream hosts does not respond, that is no event of the integration: users name them.
    if (!isKnown && host !== '' && verdict === 'no_response') return;
    const { reason = '', code } = (outcome ?? {}) as { reason?: string; code?: string };
    const why = { code, reason: withoutRecipients(reason) };
    const { version } = integration;
    const sinceMs = this.#deps.clock.now();
    const pause = { ...key, version, sinceMs, untilMs: breaker.probeAtMs, ...why };
    health.reportedVersion = version;
    const details = { level: 'error' as const, log: why.reason, code };
    const event = isKnown ? undefined : this.#event('integration.paused', integration, host, details);
    this.#deps.pauses.paused(pause, event);
  }

  #event(
    type: 'integration.paused' | 'integration.resumed',
    { projectId, id, provider, channel }: OpenedIntegration,
    host: string,
    details: { level: 'info' | 'error'; log?: string; code?: string | undefined },
  ): IntegrationEvent {
    const name = wireNameOf(provider, this.#deps.config.BRAND);
    const payload = { id, name, ...(host === '' ? {} : { party: host }) };
    return { projectId, type, details: { ...details, context: { provider: name, channel }, payload } };
  }

  /**
   * Returns undefined if nothing has failed. A new config closes the breaker, but the reported pause ends
   * only when it works. A caller that still has an older config gets the health with the newer one.
   */
  #healthOf(integration: OpenedIntegration, host: string): Health | undefined {
    if (this.#healths.size === 0) return undefined;
    const health = this.#healths.get(hostKeyOf(integration, host));
    if (health === undefined || health.version >= integration.version) return health;
    health.version = integration.version;
    health.breaker = closed(health.breaker.epoch + 1);
    return health;
  }

  /** The suspicion against this config. */
  #suspicionOf(integration: OpenedIntegration): Suspicion {
    const key = keyOf(integration);
    const { version } = integration;
    const known = this.#suspicions.get(key);
    if (known?.version === version) return known.suspicion;
    const suspicion = newSuspicion();
    this.#suspicions.set(key, { version, suspicion });
    return suspicion;
  }
}

function keyOf({ projectId, id }: OpenedIntegration): string {
  return `${projectId}:${id}`;
}

function hostKeyOf(integration: OpenedIntegration, host: string): string {
  return nameOf(pauseKeyOf(integration, host));
}

function pauseKeyOf({ projectId, id }: OpenedIntegration, host: string): PauseKey {
  return { projectId, integrationId: id, host };
}

/** The event is about the integration, and must not contain the recipient of the message that failed. */
function withoutRecipients(text: string): string {
  return oneLine(oneLine(text).replace(RECIPIENTS, '[address]'), 500);
}

const RECIPIENTS = /[^\s<>"'(),;:]+@[^\s<>"'(),;]+|\+\d[\d ().-]{5,}\d/g;
