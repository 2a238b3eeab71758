import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../lib/cache-limit.ts';
import { Limiter } from '../../lib/limiter.ts';
import { waitMs } from '../../lib/wait.ts';
import { delivering } from '../../providers/index.ts';
import {
  isRejection,
  type MessageOf,
  type Outcome,
  type Provider,
  type Rejection,
  type Sender,
  type SenderDeps,
} from '../../providers/provider.ts';
import type { OpenedIntegration } from '../integrations/of-project.ts';
import { asksNext, whatCounts } from './failover.ts';
import type { TokenRef } from './gone-token.ts';
import { type Limit, Rates } from './rates.ts';
import { Standings, type StandingsDeps } from './standings.ts';
import { withoutAddress } from './without-address.ts';

export type { GoneToken, TokenRef } from './gone-token.ts';

/** What is to be sent to one target, for the bounds and the bookkeeping around it. */
export interface About {
  /** Of this target alone and the same whenever it is asked for again: the delivery's id and the token's or address's. */
  targetId: string;
  /** Characters of the message that are in memory while it is sent. */
  weight: number;
  /** The token that is sent to, where it is one. */
  token?: TokenRef;
  /** The address, number or token itself: what a vendor says of it is kept in events, without it. */
  secrets?: readonly string[];
}

/** What became of a message for one target. */
export type Dispatched =
  /** It was tried: what the integration said that counts. */
  | { kind: 'done'; outcome: Outcome; integration: OpenedIntegration }
  /** Nothing was tried, and it is no attempt: to be asked for again at that time. */
  | { kind: 'held'; untilMs: number; reason: string };

export type SendersDeps = SenderDeps &
  StandingsDeps & {
    /** How long those who stand behind sends without an answer wait for one to come. */
    patienceMs?: number;
  };

// A sender that nobody used for this long is closed. Its connections are closed much earlier, by itself.
const IDLE_MS = 10 * 60_000;
// What is on its way over one integration has this much text. A message of 10 MiB takes some 40 MB while it is sent, and 0.2 s to
// be made, in which nothing else happens: all of a batch at once would take the memory of the whole server.
const MAX_CHARACTERS_IN_FLIGHT = 48 * 1024 * 1024;
// So long without any answer, while all places are taken, and those who wait for one are sent away.
const PATIENCE_MS = 5_000;
// So many may be under way to one party that has answered none of them for as long; each keeps a batch of the queue waiting.
const MAX_UNANSWERED = 4;
// They come back after this time or up to twice as much: by then the answers are there, or have timed out. Those who are sent away within a second
// come back together: they are one job, which would otherwise come back as many.
const STALLED_HOLD_MS = 15_000;
const SAME_STALL_MS = 1_000;
// Where the last attempt may have arrived: the next one goes the same way.
const MAX_UNSURE = 10_000;
const UNSURE_MS = 2 * 3_600_000;
// A longer name of a destination (an address) is known by its hash.
const LONGEST_KEY = 60;

type Message = MessageOf[keyof MessageOf];
type Make = (integration: OpenedIntegration) => Message | Rejection;

/** An integration at work. */
interface Line {
  integration: OpenedIntegration;
  provider: Provider;
  sender: Sender<Message>;
  limiter: Limiter;
  limits: readonly Limit[];
  usedAtMs: number;
  /** What is under way, by party, and since when no answer came. */
  flights: Map<string, { count: number; silentSinceMs: number }>;
  /** Runs while somebody waits, from the last answer on; when it is over, nobody waits until the next. */
  patience: NodeJS.Timeout | undefined;
  stalled: boolean;
  /** When who was sent away last comes back, and since when that is told. */
  again: { untilMs: number; toldMs: number } | undefined;
  /** Another has taken its place, with a newer config. */
  replaced: boolean;
}

/** What one integration made of a message, and why the next may be asked. */
type Tried =
  | Extract<Dispatched, { kind: 'done' }>
  | (Extract<Dispatched, { kind: 'held' }> & { waitsFor: 'rate' | 'integration' });

/**
 * The live senders, one for each integration; made anew when the integration's config changed. Around them what keeps an integration that does
 * not work from harming others: failover, breakers, rates, and bounds on what is under way.
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

  /**
   * Sends to one target over the first of the integrations (at least one, of one channel, in the order of failover) that can. `make` makes the
   * message for one of them when its turn has come. Rejects only if `make` throws, or a sender that has a bug.
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
    for (const line of lines) retire(line);
    await Promise.all(lines.map(({ sender }) => sender.close(options)));
  }

  async #tryOver(
    channel: keyof MessageOf,
    given: OpenedIntegration,
    make: Make,
    about: About,
  ): Promise<Tried> {
    for (;;) {
      if (this.#closed) return this.#stopping();
      const line = this.#line(channel, given);
      const { integration, provider } = line;
      // Where the message says where it goes, that is needed to know whose turn it is. Elsewhere it is made when its turn has come.
      const early =
        provider.party !== undefined || provider.rates?.destination ? make(integration) : undefined;
      if (early !== undefined && isRejection(early)) return { kind: 'done', outcome: early, integration };
      const party = early === undefined ? '' : (provider.party?.(early) ?? '');
      const barredMs = this.#standings.barred(integration, party);
      if (barredMs !== undefined) return paused(barredMs);
      const turn = this.#rates.take(limitsOf(line, early), about.targetId, this.#deps.clock.now());
      if ('heldUntilMs' in turn)
        return { kind: 'held', untilMs: turn.heldUntilMs, reason: AT_ITS_RATE, waitsFor: 'rate' };
      if (turn.waitMs > 0) await waitMs(turn.waitMs);
      const tried = await this.#whenThereIsRoom(line, { party, weight: about.weight }, () =>
        this.#attempt(line, { party, about, message: () => early ?? make(integration) }),
      );
      if (tried !== REPLACED) return tried;
    }
  }

  /** Waits while what is on its way gets answers. */
  #whenThereIsRoom(
    line: Line,
    { party, weight }: { party: string; weight: number },
    attempt: () => Promise<Tried | typeof REPLACED>,
  ): Promise<Tried | typeof REPLACED> {
    const { limiter } = line;
    const sentAway = (): Tried | typeof REPLACED => (line.replaced ? REPLACED : this.#stalled(line));
    if (line.replaced) return Promise.resolve(REPLACED);
    if (this.#isHanging(line, party) || (line.stalled && !limiter.hasRoom(weight)))
      return Promise.resolve(this.#stalled(line));
    const tried = limiter.run(weight, attempt, sentAway);
    if (limiter.waiting > 0) {
      line.patience ??= setTimeout(() => {
        line.patience = undefined;
        line.stalled = limiter.waiting > 0;
        limiter.sendAway();
      }, this.#deps.patienceMs ?? PATIENCE_MS);
    }
    return tried;
  }

  async #attempt(
    line: Line,
    { party, about, message }: { party: string; about: About; message: () => Message | Rejection },
  ): Promise<Tried | typeof REPLACED> {
    const { integration } = line;
    if (this.#closed) return this.#stopping();
    // Much may have happened while it waited.
    const admitted = this.#standings.admit(integration, party);
    if ('untilMs' in admitted) return paused(admitted.untilMs);
    let isJudged = false;
    try {
      const made = message();
      if (isRejection(made)) return { kind: 'done', outcome: made, integration };
      const outcome = anonymous(await this.#fly(line, party, () => line.sender.send(made)), about);
      if (line.replaced || this.#closed) return this.#afterItsEnd({ kind: 'done', outcome, integration });
      isJudged = true;
      const { token } = about;
      const overridden = made.override !== undefined;
      const judged = this.#standings.judge(admitted, outcome, { token, overridden });
      return { kind: 'done', outcome: judged, integration };
    } finally {
      if (!isJudged) this.#standings.withdraw(admitted);
    }
  }

  /** Sends, and notes that it is under way and that it has ended. */
  async #fly(line: Line, party: string, send: () => Promise<Outcome>): Promise<Outcome> {
    const { flights } = line;
    const flight = flights.get(party) ?? { count: 0, silentSinceMs: this.#deps.clock.now() };
    if (flight.count === 0) flights.set(party, flight);
    flight.count += 1;
    try {
      return await send();
    } finally {
      flight.count -= 1;
      if (flight.count === 0) flights.delete(party);
      flight.silentSinceMs = this.#deps.clock.now();
      line.usedAtMs = flight.silentSinceMs;
      line.stalled = false;
      line.patience?.refresh();
    }
  }

  #isHanging({ flights }: Line, party: string): boolean {
    const flight = flights.size === 0 ? undefined : flights.get(party);
    if (flight === undefined || flight.count < MAX_UNANSWERED) return false;
    return this.#deps.clock.now() - flight.silentSinceMs >= (this.#deps.patienceMs ?? PATIENCE_MS);
  }

  /** What ended with a sender that is no more says nothing of the integration, and what was not sent is not an attempt. */
  #afterItsEnd(done: Extract<Tried, { kind: 'done' }>): Tried | typeof REPLACED {
    if (!asksNext(done)) return done;
    return this.#closed ? this.#stopping() : REPLACED;
  }

  #stalled(line: Line): Tried {
    const nowMs = this.#deps.clock.now();
    // The other way round, too: a clock may be put back.
    if (line.again === undefined || Math.abs(nowMs - line.again.toldMs) >= SAME_STALL_MS)
      line.again = { untilMs: nowMs + Math.round(STALLED_HOLD_MS * (1 + Math.random())), toldMs: nowMs };
    const { untilMs } = line.again;
    return { kind: 'held', untilMs, reason: WITHOUT_ANSWER, waitsFor: 'integration' };
  }

  #stopping(): Tried {
    return { kind: 'held', untilMs: this.#deps.clock.now(), reason: STOPPING, waitsFor: 'rate' };
  }

  #line(channel: keyof MessageOf, integration: OpenedIntegration): Line {
    const key = `${integration.projectId}:${integration.id}`;
    const line = this.#lines.get(key);
    // Who has read an older config meanwhile sends with the newer one too: two at work would close each other's sender for every message.
    if (line !== undefined && line.integration.version >= integration.version) return line;
    const made = this.#connect(channel, integration);
    if (line !== undefined) {
      retire(line);
      void line.sender.close();
    }
    this.#lines.set(key, made);
    return made;
  }

  #connect(channel: keyof MessageOf, integration: OpenedIntegration): Line {
    const { projectId, id, version, config } = integration;
    const found = delivering.get(integration.provider);
    if (found?.channel !== channel) throw new Error(`${integration.provider} does not send ${channel}`);
    // One of some channel: it is only given messages that were made for that channel.
    const provider = found as unknown as Provider;
    const sender = provider.connect(config, this.#deps);
    const rates = provider.rates?.integration?.(config) ?? [];
    return {
      integration,
      provider,
      sender,
      limiter: new Limiter({ maxCount: sender.concurrency, maxWeight: MAX_CHARACTERS_IN_FLIGHT }),
      limits: rates.length === 0 ? [] : [{ key: `${projectId}:${id}:${version}`, rates }],
      usedAtMs: this.#deps.clock.now(),
      flights: new Map(),
      patience: undefined,
      stalled: false,
      again: undefined,
      replaced: false,
    };
  }

  #closeIdle(): void {
    const before = this.#deps.clock.now() - IDLE_MS;
    for (const [key, line] of this.#lines) {
      if (line.usedAtMs >= before || line.limiter.busy) continue;
      this.#lines.delete(key);
      retire(line);
      void line.sender.close();
    }
  }
}

/** As they are given; but where the last attempt may have arrived over one, with that first, so that a repeat can be seen as one. */
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
const WITHOUT_ANSWER = 'what was sent before is still without an answer';
const STOPPING = 'the server is stopping';

function paused(untilMs: number): Tried {
  return { kind: 'held', untilMs, reason: PAUSED, waitsFor: 'integration' };
}

/** Lets nothing more through; who waits is to look for another. */
function retire(line: Line): void {
  line.replaced = true;
  clearTimeout(line.patience);
  line.limiter.sendAway();
}

function anonymous(outcome: Outcome, { secrets = [] }: About): Outcome {
  if (outcome.kind === 'sent' || secrets.length === 0) return outcome;
  return { ...outcome, reason: withoutAddress(outcome.reason, secrets) };
}

/** How often may be sent: over the integration, and to the destination; that is the same whatever integration of the project it is. */
function limitsOf({ integration, provider, limits }: Line, message: Message | undefined): readonly Limit[] {
  const destination = provider.rates?.destination;
  if (destination === undefined || message === undefined) return limits;
  const name = destination.key(message);
  const key = name.length > LONGEST_KEY ? hash('sha256', name, 'base64url') : name;
  return [...limits, { key: `${integration.projectId}:${provider.name}:${key}`, rates: destination.rates }];
}
