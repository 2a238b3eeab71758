import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../lib/cache-limit.ts';
import type { Clock } from '../../lib/clock.ts';
import { wireNameOf } from '../../providers/index.ts';
import type { Outcome } from '../../providers/provider.ts';
import type { NewEvent } from '../events/record.ts';
import type { OpenedIntegration } from '../integrations/of-project.ts';
import { admit, type Breaker, CLOSED, type Permit, settle, type Verdict } from './breaker.ts';
import type { GoneToken, TokenRef } from './gone-token.ts';
import { keepAside, type Suspects, takeConvicted } from './suspects.ts';
import { verdictOf } from './verdict.ts';

export interface StandingsDeps {
  clock: Clock;
  /** The word that stands for the brand in names of integrations. */
  config: { BRAND: string };
  onTokensGone?(gone: readonly GoneToken[]): void;
  onIntegration?(event: NewEvent): void;
}

/** A send that was let through: over what, to whom, and by what right. */
export interface Admitted {
  integration: OpenedIntegration;
  /** See `Provider.party`; '' where the integration is all there is. */
  party: string;
  permit: Permit;
}

/** How an integration fares, from its first failure on. */
interface Standing {
  version: string;
  breakers: Map<string, Fare>;
  suspects: Suspects;
}
interface Fare {
  breaker: Breaker;
  /** The version of the config with which its pause was told last; undefined again when its end was told. */
  told?: string | undefined;
}

// Those longest without trouble are forgotten: of a few hundred bytes each, more with parties, who are the push services or the workspaces.
const MAX_STANDINGS = 10_000;
const MAX_PARTIES = 1_000;

/**
 * Who may send over what, by how it went before: the breakers of all integrations, and the tokens under suspicion. In the memory of this
 * process; what never failed takes none.
 */
export class Standings {
  readonly #deps: StandingsDeps;
  readonly #standings = new LRUCache<string, Standing>(cacheLimit(MAX_STANDINGS));

  constructor(deps: StandingsDeps) {
    this.#deps = deps;
  }

  /** Until when nothing is to be sent, as it looks now; undefined where it may be. Lets nothing through yet. */
  barred(integration: OpenedIntegration, party: string): number | undefined {
    const fare = this.#find(integration)?.breakers.get(party);
    if (fare === undefined) return undefined;
    const asked = admit(fare.breaker, this.#deps.clock.now());
    return 'untilMs' in asked ? asked.untilMs : undefined;
  }

  /** Lets a message through, to be followed by `judge`; or says when to ask again. */
  admit(integration: OpenedIntegration, party: string): Admitted | { untilMs: number } {
    const fare = this.#find(integration)?.breakers.get(party);
    if (fare === undefined) return { integration, party, permit: CLOSED };
    const asked = admit(fare.breaker, this.#deps.clock.now());
    fare.breaker = asked.breaker;
    return 'permit' in asked ? { integration, party, permit: asked.permit } : { untilMs: asked.untilMs };
  }

  /** What became of it: the outcome that counts, which is the config's fault where so many tokens are refused that they cannot all be gone. */
  judge(
    admitted: Admitted,
    outcome: Outcome,
    { token, overridden }: { token: TokenRef | undefined; overridden: boolean },
  ): Outcome {
    if (outcome.kind === 'token_gone' && token !== undefined)
      return this.#judgeToken(admitted, outcome, token);
    if (outcome.kind === 'sent') this.#acquit(admitted);
    this.#settle(admitted, verdictOf(outcome, { overridden }), outcome);
    return outcome;
  }

  /** Nothing was learnt: it was not sent after all. */
  withdraw(admitted: Admitted): void {
    this.#settle(admitted, 'unclear');
  }

  #judgeToken(admitted: Admitted, outcome: TokenGone, token: TokenRef): Outcome {
    const { kind: _, suspect, ...said } = outcome;
    const gone: GoneToken = { ...token, ...said };
    if (suspect !== 'config') {
      this.#settle(admitted, 'unclear');
      this.#deps.onTokensGone?.([gone]);
      return outcome;
    }
    const standing = this.#get(admitted.integration);
    if (standing === undefined) return outcome; // said of a config that has been replaced
    const breaker = standing.breakers.get(admitted.party)?.breaker;
    const isProbe = breaker?.state === 'half_open' && breaker.epoch === admitted.permit.epoch;
    if (!isProbe && !keepAside(standing.suspects, gone)) {
      this.#settle(admitted, 'unclear');
      return outcome;
    }
    const { reason, code } = said;
    const rejection: Outcome = {
      kind: 'rejected',
      scope: 'config',
      reason: `one token after another is refused, which is the config's fault rather than theirs: ${reason}`,
      ...(code === undefined ? {} : { code }),
    };
    this.#settle(admitted, 'refuses', rejection);
    return rejection;
  }

  /** The config is right, so the tokens that it was suspected for really are gone. */
  #acquit({ integration }: Admitted): void {
    const standing = this.#find(integration);
    if (standing === undefined || standing.suspects.size === 0) return;
    this.#deps.onTokensGone?.(takeConvicted(standing.suspects));
  }

  #settle(admitted: Admitted, verdict: Verdict, outcome?: Outcome): void {
    const { integration, party, permit } = admitted;
    const isTrouble = verdict === 'refuses' || verdict === 'silent';
    const standing = isTrouble ? this.#get(integration) : this.#find(integration);
    if (standing === undefined) return;
    let fare = standing.breakers.get(party);
    if (fare === undefined) {
      if (!isTrouble) return;
      fare = { breaker: CLOSED };
      standing.breakers.set(party, fare);
      forgetOldest(standing.breakers, MAX_PARTIES);
    }
    const before = fare.breaker;
    fare.breaker = settle(before, permit, verdict, { nowMs: this.#deps.clock.now() });
    if (before.epoch !== fare.breaker.epoch || verdict === 'works')
      this.#tell(admitted, fare, { verdict, outcome });
  }

  /** Once each: that it is paused, under each config; and that it works again. */
  #tell(
    { integration, party }: Admitted,
    fare: Fare,
    { verdict, outcome }: { verdict: Verdict; outcome: Outcome | undefined },
  ): void {
    const { state } = fare.breaker;
    if (state === 'closed' && fare.told !== undefined && verdict === 'works') {
      fare.told = undefined;
      this.#deps.onIntegration?.(this.#event('integration.resumed', integration, party, { level: 'info' }));
    }
    // That one party of many does not answer is no news of the integration, and anyone can be a party.
    const isNews = fare.told !== integration.version && (party === '' || verdict === 'refuses');
    if (state !== 'open' || !isNews) return;
    const { reason = '', code } = (outcome ?? {}) as { reason?: string; code?: string };
    fare.told = integration.version;
    this.#deps.onIntegration?.(
      this.#event('integration.paused', integration, party, {
        level: 'error',
        log: withoutRecipients(reason),
        ...(code === undefined ? {} : { code }),
      }),
    );
  }

  #event(
    type: 'integration.paused' | 'integration.resumed',
    { projectId, id, provider, channel }: OpenedIntegration,
    party: string,
    details: { level: 'info' | 'error'; log?: string; code?: string },
  ): NewEvent {
    const name = wireNameOf(provider, this.#deps.config.BRAND);
    const payload = { id, name, ...(party === '' ? {} : { party }) };
    return { projectId, type, details: { ...details, context: { provider: name, channel }, payload } };
  }

  /** The standing under this config; undefined where there is none. */
  #find(integration: OpenedIntegration): Standing | undefined {
    if (this.#standings.size === 0) return undefined;
    const standing = this.#standings.get(keyOf(integration));
    if (standing === undefined || standing.version > integration.version) return undefined;
    if (standing.version < integration.version) renew(standing, integration.version);
    return standing;
  }

  /** Makes it where there is none; undefined only where there is one of a newer config, which this one says nothing of. */
  #get(integration: OpenedIntegration): Standing | undefined {
    const found = this.#find(integration);
    if (found !== undefined || this.#standings.has(keyOf(integration))) return found;
    const { version } = integration;
    const made: Standing = { version, breakers: new Map(), suspects: new Map() };
    this.#standings.set(keyOf(integration), made);
    return made;
  }
}

type TokenGone = Extract<Outcome, { kind: 'token_gone' }>;

function keyOf({ projectId, id }: OpenedIntegration): string {
  return `${projectId}:${id}`;
}

/** Another config has another chance. That it was paused is not over before it works. */
function renew(standing: Standing, version: string): void {
  standing.version = version;
  standing.suspects.clear();
  for (const fare of standing.breakers.values())
    fare.breaker = { epoch: fare.breaker.epoch + 1, state: 'closed', failures: 0 };
}

function forgetOldest(map: Map<string, unknown>, most: number): void {
  for (const key of map.keys()) {
    if (map.size <= most) return;
    map.delete(key);
  }
}

/** The event is about the integration: whose address or number was tried when it failed is nobody's business. */
function withoutRecipients(text: string): string {
  return text
    .toWellFormed()
    .replace(/\p{Cc}+/gu, ' ')
    .replace(/[^\s<>"'(),;:]+@[^\s<>"'(),;]+|\+\d[\d ().-]{5,}\d/g, '[address]')
    .slice(0, 500);
}
