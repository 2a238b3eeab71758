import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Clock } from '../../../lib/clock.ts';
import { oneLine } from '../../../lib/one-line.ts';
import { wireNameOf } from '../../../providers/index.ts';
import type { SendOutcome } from '../../../providers/provider.ts';
import type { EventDetails, NewEvent } from '../../ground/events/record.ts';
import type { GoneToken, TokenRef } from '../../people/tokens/gone-token.ts';
import type { OpenedIntegration } from '../../setup/integrations/of-project.ts';
import type { Pause, PauseKey } from '../../setup/integrations/pauses.ts';
import { admit, type Breaker, CLOSED, type Permit, reopened, settle, type Verdict } from './breaker.ts';
import { keepAside, noSuspects, type Suspects, suspect, takeConvicted } from './suspects.ts';
import { mayBeConfig, verdictOf } from './verdict.ts';

export interface StandingsDeps {
  clock: Clock;
  /** The word that stands for the brand in names of integrations. */
  config: { BRAND: string };
  /** Called with tokens that are gone for certain. */
  onTokensGone(gone: readonly GoneToken[]): void;
  /** Called when an integration is paused, and when it works again. */
  onIntegration(event: IntegrationEvent): void;
  /** Called when an integration is paused, and each time that a probe fails and it stays so. */
  onPaused(pause: Pause): void;
  /** Called when it works again. */
  onResumed(key: PauseKey): void;
}

/** That an integration is paused, or works again. */
export type IntegrationEvent = NewEvent & { details: EventDetails };

/** A send that was let through: over what, to whom, and by what right. */
export interface Admitted {
  integration: OpenedIntegration;
  /** See `Provider.party`; '' where the integration is all there is. */
  party: string;
  permit: Permit;
}

/** What has to be known of a message to judge how it ended. */
export interface JudgedMessage {
  userId: string;
  /** The token that it was sent to, where it is one. */
  token?: TokenRef | undefined;
  /** The broadcast has an override for the provider. */
  overridden: boolean;
}

/** How it goes with a party of an integration under its config, from the first failure on. */
interface Fare {
  version: string;
  breaker: Breaker;
  /** The version with which its pause was reported last; undefined again when its end was reported. */
  told?: string | undefined;
  /** Since when it works again, after a pause. */
  resumedAtMs?: number;
}
interface Suspected {
  version: string;
  suspects: Suspects;
}

// Those without trouble for longest are forgotten. 300 bytes each; and of the suspected 200 tokens at most,
// of 500 bytes.
const MAX_FARES = 20_000;
const MAX_SUSPECTED = 2_000;

/**
 * Who may send over what, by how it went before: the breakers of all integrations, and the tokens under
 * suspicion. In the memory of this process; what never failed takes none.
 */
export class Standings {
  readonly #deps: StandingsDeps;
  readonly #fares = new LRUCache<string, Fare>(cacheLimit(MAX_FARES));
  readonly #suspected = new LRUCache<string, Suspected>(cacheLimit(MAX_SUSPECTED));

  constructor(deps: StandingsDeps) {
    this.#deps = deps;
  }

  /**
   * Takes over pauses that were written by other nodes, or by this one before it was restarted. Ignores those
   * that it knows, and what ended here since.
   */
  adopt(pauses: readonly Pause[]): void {
    for (const { projectId, integrationId, party, version, sinceMs, untilMs } of pauses) {
      const key = `${projectId}:${integrationId}:${party}`;
      const known = this.#fares.get(key);
      if (known !== undefined) {
        const isOlder = version < known.version || untilMs <= (known.resumedAtMs ?? 0);
        if (isOlder || (version === known.version && known.breaker.state !== 'closed')) continue;
      }
      const breaker = reopened(known?.breaker ?? CLOSED, { waitMs: untilMs - sinceMs, probeAtMs: untilMs });
      this.#fares.set(key, { version, breaker, told: version });
    }
  }

  /**
   * Until when nothing is to be sent, as it looks now; undefined where it may be. Lets nothing through yet.
   */
  barred(integration: OpenedIntegration, party: string): number | undefined {
    const fare = this.#fare(integration, party);
    if (fare === undefined) return undefined;
    const asked = admit(fare.breaker, this.#deps.clock.now());
    if (!('untilMs' in asked)) return undefined;
    fare.breaker = asked.breaker;
    return asked.untilMs;
  }

  /** Lets a message through, to be followed by `judge`; or says when to ask again. */
  admit(integration: OpenedIntegration, party: string): Admitted | { untilMs: number } {
    const fare = this.#fare(integration, party);
    if (fare === undefined) return { integration, party, permit: CLOSED };
    const asked = admit(fare.breaker, this.#deps.clock.now());
    fare.breaker = asked.breaker;
    return 'permit' in asked ? { integration, party, permit: asked.permit } : { untilMs: asked.untilMs };
  }

  /**
   * Notes how a send ended, for the breaker. Returns the outcome that counts: a refused config, where so many
   * users' tokens are refused that they cannot all be gone.
   */
  judge(admitted: Admitted, outcome: SendOutcome, about: JudgedMessage): SendOutcome {
    if (outcome.kind === 'token_gone' && about.token !== undefined)
      return this.#judgeToken(admitted, outcome, { ...about, token: about.token });
    if (outcome.kind === 'sent') this.#acquit(admitted);
    const verdict = mayBeConfig(outcome)
      ? this.#suspect(admitted, about)
      : verdictOf(outcome, { overridden: about.overridden });
    this.#settle(admitted, verdict, outcome);
    return outcome;
  }

  /** Nothing was learnt: it was not sent after all. */
  withdraw(admitted: Admitted): void {
    this.#settle(admitted, 'unclear');
  }

  #judgeToken(
    admitted: Admitted,
    outcome: TokenGone,
    { token, ...about }: JudgedMessage & { token: TokenRef },
  ): SendOutcome {
    const { kind: _, suspect: suspicion, ...said } = outcome;
    const gone: GoneToken = { ...token, ...said };
    if (suspicion !== 'config') {
      this.#settle(admitted, 'unclear');
      this.#deps.onTokensGone([gone]);
      return outcome;
    }
    const verdict = this.#suspect(admitted, about);
    if (verdict !== 'refuses') {
      // It may be long until it is discarded, and whoever saves it meanwhile has it.
      const goneAt = gone.goneAt ?? new Date(this.#deps.clock.now());
      keepAside(this.#suspects(admitted.integration), { ...gone, goneAt });
      this.#settle(admitted, verdict, outcome);
      return outcome;
    }
    const { reason, code } = said;
    const rejection: SendOutcome = {
      kind: 'rejected',
      scope: 'config',
      reason: `the tokens of one user after another are refused, so the config is wrong rather than they: ${reason}`,
      ...(code === undefined ? {} : { code }),
    };
    this.#settle(admitted, 'refuses', rejection);
    return rejection;
  }

  /**
   * What a failure proves that the recipient may have caused. An override may have caused it as well, and
   * then it proves nothing.
   */
  #suspect(
    { integration, party, permit }: Admitted,
    { userId, overridden }: Pick<JudgedMessage, 'userId' | 'overridden'>,
  ): Verdict {
    if (overridden) return 'unclear';
    const finding = suspect(this.#suspects(integration), userId);
    if (finding === 'accused') return 'refuses';
    const breaker = this.#fare(integration, party)?.breaker;
    const isProbe = breaker?.state === 'half_open' && breaker.epoch === permit.epoch;
    if (!isProbe) return 'unclear';
    return finding === 'repeated' ? 'refuses_again' : 'refuses';
  }

  /** The config is right, so the tokens that it was suspected for really are gone. */
  #acquit({ integration }: Admitted): void {
    if (this.#suspected.size === 0) return;
    const gone = takeConvicted(this.#suspects(integration));
    this.#suspected.delete(keyOf(integration));
    if (gone.length > 0) this.#deps.onTokensGone(gone);
  }

  #settle({ integration, party, permit }: Admitted, verdict: Verdict, outcome?: SendOutcome): void {
    let fare = this.#fare(integration, party);
    if (fare === undefined) {
      if (verdict !== 'refuses' && verdict !== 'silent') return;
      fare = { version: integration.version, breaker: CLOSED };
      this.#fares.set(fareKey(integration, party), fare);
    }
    // Said of a config that has been replaced.
    if (fare.version > integration.version) return;
    const before = fare.breaker;
    fare.breaker = settle(before, permit, verdict, { nowMs: this.#deps.clock.now() });
    if (before.epoch !== fare.breaker.epoch || verdict === 'works')
      this.#tell(integration, party, fare, { verdict, outcome });
  }

  /** Reports a pause, its end, and that it goes on. The event of a pause is recorded once for each config. */
  #tell(
    integration: OpenedIntegration,
    party: string,
    fare: Fare,
    { verdict, outcome }: { verdict: Verdict; outcome: SendOutcome | undefined },
  ): void {
    const { breaker, told } = fare;
    const key = { projectId: integration.projectId, integrationId: integration.id, party };
    if (breaker.state === 'closed' && told !== undefined && verdict === 'works') {
      fare.told = undefined;
      fare.resumedAtMs = this.#deps.clock.now();
      this.#deps.onResumed(key);
      this.#deps.onIntegration(this.#event('integration.resumed', integration, party, { level: 'info' }));
    }
    if (breaker.state !== 'open' || verdict === 'unclear') return;
    const isKnown = told === integration.version;
    // That one party of many does not answer is no news of the integration, and anyone can be a party.
    if (!isKnown && party !== '' && verdict === 'silent') return;
    const { reason = '', code } = (outcome ?? {}) as { reason?: string; code?: string };
    const why = { code, reason: withoutRecipients(reason) };
    const { version } = integration;
    const sinceMs = this.#deps.clock.now();
    this.#deps.onPaused({ ...key, version, sinceMs, untilMs: breaker.probeAtMs, ...why });
    if (isKnown) return;
    fare.told = version;
    const details = { level: 'error' as const, log: why.reason, ...(code === undefined ? {} : { code }) };
    this.#deps.onIntegration(this.#event('integration.paused', integration, party, details));
  }

  #event(
    type: 'integration.paused' | 'integration.resumed',
    { projectId, id, provider, channel }: OpenedIntegration,
    party: string,
    details: { level: 'info' | 'error'; log?: string; code?: string },
  ): IntegrationEvent {
    const name = wireNameOf(provider, this.#deps.config.BRAND);
    const payload = { id, name, ...(party === '' ? {} : { party }) };
    return { projectId, type, details: { ...details, context: { provider: name, channel }, payload } };
  }

  /**
   * How it goes; undefined where nothing has failed. Another config has another chance: but that it was
   * paused is not over before it works. Who still has an older one is told how it goes with the newer.
   */
  #fare(integration: OpenedIntegration, party: string): Fare | undefined {
    if (this.#fares.size === 0) return undefined;
    const fare = this.#fares.get(fareKey(integration, party));
    if (fare === undefined || fare.version >= integration.version) return fare;
    fare.version = integration.version;
    fare.breaker = { epoch: fare.breaker.epoch + 1, state: 'closed', failures: 0 };
    return fare;
  }

  /** What is suspected of this config. */
  #suspects(integration: OpenedIntegration): Suspects {
    const key = keyOf(integration);
    const { version } = integration;
    const found = this.#suspected.get(key);
    if (found?.version === version) return found.suspects;
    const made: Suspected = { version, suspects: noSuspects() };
    this.#suspected.set(key, made);
    return made.suspects;
  }
}

type TokenGone = Extract<SendOutcome, { kind: 'token_gone' }>;

function keyOf({ projectId, id }: OpenedIntegration): string {
  return `${projectId}:${id}`;
}

function fareKey(integration: OpenedIntegration, party: string): string {
  return `${keyOf(integration)}:${party}`;
}

/**
 * The event is about the integration: whose address or number was tried when it failed is nobody's business.
 */
function withoutRecipients(text: string): string {
  return oneLine(oneLine(text).replace(RECIPIENTS, '[address]'), 500);
}

const RECIPIENTS = /[^\s<>"'(),;:]+@[^\s<>"'(),;]+|\+\d[\d ().-]{5,}\d/g;
