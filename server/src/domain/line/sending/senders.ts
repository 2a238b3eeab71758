import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import { waitMs } from '../../../lib/wait.ts';
import { withoutAddress } from '../../../lib/without-address.ts';
import {
  isRejection,
  type MessageOf,
  type Rejection,
  type SendOutcome,
} from '../../../providers/provider.ts';
import type { TokenRef } from '../../people/tokens/gone-token.ts';
import type { OpenedIntegration } from '../../setup/integrations/of-project.ts';
import type { Pause } from '../../setup/integrations/pauses.ts';
import { cannotOpen } from './cannot-open.ts';
import { asksNext, whatCounts } from './failover.ts';
import { type Line, type LineDeps, openLine } from './line.ts';
import { Rates } from './rates.ts';
import { Standings, type StandingsDeps } from './standings.ts';

/** What is to be sent to one target, for the bounds and the bookkeeping around it. */
export interface About {
  /**
   * Of this target alone and the same whenever it is asked for again: the delivery's id and the token's or
   * address's.
   */
  targetId: string;
  /** Who it is for: failures that a recipient can cause are counted by user. */
  userId: string;
  /** Characters of the message that are in memory while it is sent. */
  weight: number;
  /** The token that is sent to, where it is one. */
  token?: TokenRef;
  /** The address, number or token itself: what a vendor says of it is kept in events, without it. */
  secrets?: readonly string[];
  /** Awaited right before each send, when its permit is there. A rejection ends it unsent. */
  beforeSend?(): Promise<Rejection | undefined>;
}

/** What became of a message for one target. */
export type Dispatched =
  /** It was tried: what the integration said that counts. */
  | { kind: 'done'; outcome: SendOutcome; integration: OpenedIntegration }
  /** Nothing was tried, and it is no attempt: to be asked for again at that time. */
  | { kind: 'held'; untilMs: number; reason: string };

export type SendersDeps = LineDeps &
  StandingsDeps & {
    /** While true nothing is sent, because what becomes of it could not be written. */
    isBlocked(): boolean;
  };

// How long messages are deferred that may not be sent while outcomes cannot be written.
const BLOCKED_HOLD_MS = 1_000;
// A sender that nobody used for this long is closed. Its connections are closed much earlier, by itself.
const IDLE_MS = 10 * 60_000;
// Where the last attempt may have arrived: the next one goes the same way.
const MAX_UNSURE = 10_000;
const UNSURE_MS = 2 * 3_600_000;

type Message = MessageOf[keyof MessageOf];
type Make = (integration: OpenedIntegration) => Message | Rejection;

/** What one integration made of a message, and why the next may be asked. */
type Tried =
  | Extract<Dispatched, { kind: 'done' }>
  | (Extract<Dispatched, { kind: 'held' }> & { waitsFor: 'rate' | 'integration' });

/**
 * The live senders, one for each integration; made anew when the integration's config changed. Around them
 * what keeps an integration that does not work from harming others: failover, breakers, rates, and bounds on
 * what is under way.
 */
export class Senders {
  readonly #deps: SendersDeps;
  readonly #lines = new Map<string, Line>();
  readonly #standings: Standings;
  readonly #rates = new Rates();
  readonly #unsure = new LRUCache<string, string>({ ...cacheLimit(MAX_UNSURE), ttl: UNSURE_MS });
  readonly #timer: NodeJS.Timeout;
  #closed = false;

  constructor(deps: SendersDeps) {
    this.#deps = deps;
    this.#standings = new Standings(deps);
    this.#timer = setInterval(() => this.#closeIdle(), IDLE_MS / 10);
    this.#timer.unref();
  }

  /** Takes over pauses that other nodes have written, or this one before it was restarted. */
  adopt(pauses: readonly Pause[]): void {
    this.#standings.adopt(pauses);
  }

  /**
   * Sends to one target over the first of the integrations (at least one, of one channel, in the order of
   * failover) that can. `make` makes the message for one of them when its turn has come. Rejects only if
   * `make` throws, or a sender that has a bug.
   */
  async send<C extends keyof MessageOf>(
    channel: C,
    integrations: readonly OpenedIntegration[],
    make: (integration: OpenedIntegration) => MessageOf[C] | Rejection,
    about: About,
  ): Promise<Dispatched> {
    const unsure = integrations.length > 1 ? this.#unsure.get(about.targetId) : undefined;
    const tried: Tried[] = [];
    for (const integration of firstOver(unsure, integrations)) {
      const one = await this.#tryOver(channel, integration, make, about);
      tried.push(one);
      if (!asksNext(one, integration.id === unsure)) break;
    }
    const what = whatCounts(tried);
    // Who asked another after that one was refused by it.
    if (integrations.length > 1)
      this.#noteUnsure(about.targetId, what, tried.length > 1 ? undefined : unsure);
    return what.kind === 'held' ? { kind: 'held', untilMs: what.untilMs, reason: what.reason } : what;
  }

  /** Over which integration the message may have arrived: this time, or still. */
  #noteUnsure(targetId: string, what: Tried, before: string | undefined): void {
    const isRetry = what.kind === 'done' && what.outcome.kind === 'retry';
    const isNow = what.kind === 'done' && what.outcome.kind === 'retry' && what.outcome.ambiguous;
    const id = isNow ? what.integration.id : what.kind === 'held' || isRetry ? before : undefined;
    if (id === undefined) this.#unsure.delete(targetId);
    else this.#unsure.set(targetId, id);
  }

  /** Sends nothing more; what is on its way gets `graceMs`, what waits is held. */
  async close(options: { graceMs?: number } = {}): Promise<void> {
    clearInterval(this.#timer);
    this.#closed = true;
    const lines = [...this.#lines.values()];
    await Promise.all(lines.map((line) => line.close(options)));
  }

  async #tryOver(
    channel: keyof MessageOf,
    given: OpenedIntegration,
    make: Make,
    about: About,
  ): Promise<Tried> {
    const { unreadable } = given;
    if (unreadable !== undefined)
      return { kind: 'done', outcome: cannotOpen('config', unreadable), integration: given };
    for (;;) {
      if (this.#closed) return this.#stopping();
      const line = this.#line(channel, given);
      const { integration, provider } = line;
      // Where the message says where it goes, that is needed to know whose turn it is. Elsewhere it is made
      // when its turn has come.
      const early =
        provider.party !== undefined || provider.rates?.destination ? make(integration) : undefined;
      if (early !== undefined && isRejection(early)) return { kind: 'done', outcome: early, integration };
      const party = early === undefined ? '' : (provider.party?.(early) ?? '');
      const barredMs = this.#standings.barred(integration, party);
      if (barredMs !== undefined) return paused(barredMs);
      const turn = this.#rates.take(line.limitsOf(early), about.targetId, this.#deps.clock.now());
      if ('heldUntilMs' in turn)
        return { kind: 'held', untilMs: turn.heldUntilMs, reason: AT_ITS_RATE, waitsFor: 'rate' };
      if (turn.waitMs > 0) await waitMs(turn.waitMs);
      const sentAway = () => (line.isRetired ? REPLACED : withoutAnswer(line));
      const attempt = () => this.#attempt(line, { party, about, message: () => early ?? make(integration) });
      const tried = await line.whenThereIsRoom({ party, weight: about.weight }, attempt, sentAway);
      if (tried !== REPLACED) return tried;
    }
  }

  async #attempt(
    line: Line,
    { party, about, message }: { party: string; about: About; message: () => Message | Rejection },
  ): Promise<Tried | typeof REPLACED> {
    const { integration } = line;
    // Much may have happened while it waited.
    if (this.#closed) return this.#stopping();
    if (this.#deps.isBlocked()) return this.#blocked();
    const admitted = this.#standings.admit(integration, party);
    if ('untilMs' in admitted) return paused(admitted.untilMs);
    let isJudged = false;
    try {
      const made = message();
      if (isRejection(made)) return { kind: 'done', outcome: made, integration };
      const rejection = await about.beforeSend?.();
      if (rejection !== undefined) return { kind: 'done', outcome: rejection, integration };
      const outcome = anonymous(await line.send(party, made), about);
      if (line.isRetired || this.#closed) return this.#afterItsEnd({ kind: 'done', outcome, integration });
      isJudged = true;
      const { userId, token } = about;
      const overridden = made.override !== undefined;
      const judged = this.#standings.judge(admitted, outcome, { userId, token, overridden });
      return { kind: 'done', outcome: judged, integration };
    } finally {
      if (!isJudged) this.#standings.withdraw(admitted);
    }
  }

  /**
   * What ended with a sender that is no more says nothing of the integration, and what was not sent is not an
   * attempt.
   */
  #afterItsEnd(done: Extract<Tried, { kind: 'done' }>): Tried | typeof REPLACED {
    if (!asksNext(done)) return done;
    return this.#closed ? this.#stopping() : REPLACED;
  }

  #stopping(): Tried {
    return { kind: 'held', untilMs: this.#deps.clock.now(), reason: STOPPING, waitsFor: 'rate' };
  }

  #blocked(): Tried {
    const untilMs = this.#deps.clock.now() + BLOCKED_HOLD_MS;
    return { kind: 'held', untilMs, reason: BLOCKED, waitsFor: 'rate' };
  }

  #line(channel: keyof MessageOf, integration: OpenedIntegration): Line {
    const key = `${integration.projectId}:${integration.id}`;
    const line = this.#lines.get(key);
    // Who has read an older config meanwhile sends with the newer one too: two at work would close each
    // other's sender for every message.
    if (line !== undefined && line.integration.version >= integration.version) return line;
    const made = openLine(this.#deps, channel, integration);
    void line?.close();
    this.#lines.set(key, made);
    return made;
  }

  #closeIdle(): void {
    for (const [key, line] of this.#lines) {
      if (!line.isIdle(IDLE_MS)) continue;
      this.#lines.delete(key);
      void line.close();
    }
  }
}

/**
 * As they are given; but where the last attempt may have arrived over one, with that first, so that a repeat
 * can be seen as one.
 */
function firstOver(
  unsure: string | undefined,
  integrations: readonly OpenedIntegration[],
): readonly OpenedIntegration[] {
  if (unsure === undefined) return integrations;
  return integrations.toSorted((a, b) => Number(b.id === unsure) - Number(a.id === unsure));
}

const REPLACED = Symbol('replaced');
const AT_ITS_RATE = 'as much as may be sent is on its way';
const PAUSED = 'the integration is paused';
const STOPPING = 'the server is stopping';
const BLOCKED = 'the database cannot be written to';

function paused(untilMs: number): Tried {
  return { kind: 'held', untilMs, reason: PAUSED, waitsFor: 'integration' };
}

function withoutAnswer(line: Line): Tried {
  const reason = 'what was sent before is still without an answer';
  return { kind: 'held', untilMs: line.askAgainMs(), reason, waitsFor: 'integration' };
}

function anonymous(outcome: SendOutcome, { secrets = [] }: About): SendOutcome {
  if (outcome.kind === 'sent' || secrets.length === 0) return outcome;
  return { ...outcome, reason: withoutAddress(outcome.reason, secrets) };
}
