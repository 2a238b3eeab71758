import { Limiter } from '../../lib/limiter.ts';
import { delivering } from '../../providers/index.ts';
import {
  type EmailMessage,
  isRejection,
  type MessageOf,
  type Outcome,
  type Rejection,
  type Sender,
  type SenderDeps,
} from '../../providers/provider.ts';
import type { NewEvent } from '../events/record.ts';
import type { OpenedIntegration } from '../integrations/of-project.ts';

/** What is to be sent to one target, for the bounds and the bookkeeping around it. */
export interface About {
  /** Of this target alone and the same whenever it is asked for again: the delivery's id and the token's or address's. */
  targetId: string;
  /** Characters of the message that are in memory while it is sent. */
  weight: number;
  /** The token that is sent to, where it is one. */
  token?: TokenRef;
}

/** A token, as far as is needed to discard it. */
export interface TokenRef {
  projectId: string;
  userId: string;
  tokenId: string;
  /** As tokens have it: `mobile_push/apns`. */
  channel: string;
  installationId?: string;
}

/** A token that is no more, by the word of the provider. */
export interface GoneToken extends TokenRef {
  scope: 'token' | 'installation';
  goneAt?: Date;
  reason: string;
  code?: string;
}

/** What became of a message for one target. */
export type Dispatched =
  /** It was tried: what the integration said that counts. */
  | { kind: 'done'; outcome: Outcome; integration: OpenedIntegration }
  /** Nothing was tried, and it is no attempt: to be asked for again at that time. */
  | { kind: 'held'; untilMs: number; reason: string };

export type SendersDeps = SenderDeps & {
  /** Called once for each token, when it is certain. */
  onTokensGone?(gone: readonly GoneToken[]): void;
  /** Called when an integration is paused, and when it works again. */
  onIntegration?(event: NewEvent): void;
};

// A sender that nobody used for this long is closed. Its connections are closed much earlier, by itself.
const IDLE_MS = 10 * 60_000;
// What is on its way over one integration has this much text. A message of 10 MiB takes some 40 MB while it is sent, and 0.2 s to
// be made, in which nothing else happens: all of a batch at once would take the memory of the whole server.
const MAX_CHARACTERS_IN_FLIGHT = 48 * 1024 * 1024;

interface Held {
  version: string;
  sender: Sender<MessageOf[keyof MessageOf]>;
  limiter: Limiter;
  usedAtMs: number;
}

/** The live senders, one for each integration; made anew when the integration's config changed. */
export class Senders {
  readonly #deps: SendersDeps;
  readonly #senders = new Map<string, Held>();
  readonly #timer: NodeJS.Timeout;
  #closed = false;

  constructor(deps: SendersDeps) {
    this.#deps = deps;
    this.#timer = setInterval(() => this.#closeIdle(), IDLE_MS / 10);
    this.#timer.unref();
  }

  /**
   * Sends to one target over the first of the integrations (of one channel, in the order of failover) that can. `make` makes the message for
   * one of them, when its turn has come. Never rejects.
   */
  async send<C extends keyof MessageOf>(
    channel: C,
    integrations: readonly OpenedIntegration[],
    make: (integration: OpenedIntegration) => MessageOf[C] | Rejection,
    { weight, token }: About,
  ): Promise<Dispatched> {
    const [integration] = integrations;
    if (integration === undefined) throw new Error(`no integration for ${channel}`);
    const held = this.#of(channel, integration);
    const outcome = await held.limiter.run(weight, async (): Promise<Outcome> => {
      const message = make(integration);
      return isRejection(message) ? message : held.sender.send(message);
    });
    held.usedAtMs = this.#deps.clock.now();
    if (outcome.kind === 'token_gone' && token !== undefined) {
      const { kind: _, suspect, ...gone } = outcome;
      if (suspect === undefined) this.#deps.onTokensGone?.([{ ...token, ...gone }]);
    }
    return { kind: 'done', outcome, integration };
  }

  /** Sends an e-mail over an integration, when no more than its sender can do is on its way. Never rejects. */
  async sendEmail(integration: OpenedIntegration, message: EmailMessage): Promise<Outcome> {
    const dispatched = await this.send('email', [integration], () => message, {
      targetId: message.deliveryId,
      weight: message.html.length + message.text.length,
    });
    return dispatched.kind === 'done'
      ? dispatched.outcome
      : { kind: 'retry', reason: dispatched.reason, ambiguous: false };
  }

  #of(channel: keyof MessageOf, integration: OpenedIntegration): Held {
    const nowMs = this.#deps.clock.now();
    const key = `${integration.projectId}:${integration.id}`;
    const held = this.#senders.get(key);
    // Who has read an older config meanwhile sends with the newer one too: two at work would close each other's sender for every message.
    if (held !== undefined && held.version >= integration.version) {
      held.usedAtMs = nowMs;
      return held;
    }
    if (held) void held.sender.close();
    const provider = delivering.get(integration.provider);
    if (provider?.channel !== channel) throw new Error(`${integration.provider} does not send ${channel}`);
    const sender: Sender<never> = provider.connect(integration.config, this.#deps);
    // It then answers every message with "later", and so brings to an end what asks for it.
    if (this.#closed) void sender.close();
    const limiter = new Limiter({ maxCount: sender.concurrency, maxWeight: MAX_CHARACTERS_IN_FLIGHT });
    const made = {
      version: integration.version,
      // The message is of its channel: `make` made it for this one.
      sender: sender as Held['sender'],
      limiter,
      usedAtMs: nowMs,
    };
    this.#senders.set(key, made);
    return made;
  }

  /** Sends nothing more; what is on its way gets `graceMs`. */
  async close(options: { graceMs?: number } = {}): Promise<void> {
    clearInterval(this.#timer);
    this.#closed = true;
    await Promise.all([...this.#senders.values()].map(({ sender }) => sender.close(options)));
  }

  #closeIdle(): void {
    const before = this.#deps.clock.now() - IDLE_MS;
    for (const [id, { sender, limiter, usedAtMs }] of this.#senders) {
      if (usedAtMs >= before || limiter.busy) continue;
      this.#senders.delete(id);
      void sender.close();
    }
  }
}
