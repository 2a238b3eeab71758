import { Limiter } from '../../lib/limiter.ts';
import { delivering } from '../../providers/index.ts';
import type { EmailMessage, Outcome, Sender, SenderDeps } from '../../providers/provider.ts';
import type { OpenedIntegration } from '../integrations/of-project.ts';

// A sender that nobody used for this long is closed. Its connections are closed much earlier, by itself.
const IDLE_MS = 10 * 60_000;
// What is on its way over one integration has this much text. A message of 10 MiB takes some 40 MB while it is sent, and 0.2 s to
// be made, in which nothing else happens: all of a batch at once would take the memory of the whole server.
const MAX_CHARACTERS_IN_FLIGHT = 48 * 1024 * 1024;

interface Held {
  version: string;
  sender: Sender<EmailMessage>;
  limiter: Limiter;
  usedAtMs: number;
}

/** The live senders, one for each integration; made anew when the integration's config changed. */
export class Senders {
  readonly #deps: SenderDeps;
  readonly #senders = new Map<string, Held>();
  readonly #timer: NodeJS.Timeout;
  #closed = false;

  constructor(deps: SenderDeps) {
    this.#deps = deps;
    this.#timer = setInterval(() => this.#closeIdle(), IDLE_MS / 10);
    this.#timer.unref();
  }

  /** Sends an e-mail over an integration, when no more than its sender can do is on its way. Never rejects. */
  async sendEmail(integration: OpenedIntegration, message: EmailMessage): Promise<Outcome> {
    const held = this.#email(integration);
    const outcome = await held.limiter.run(message.html.length + message.text.length, () =>
      held.sender.send(message),
    );
    held.usedAtMs = this.#deps.clock.now();
    return outcome;
  }

  #email(integration: OpenedIntegration): Held {
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
    if (provider?.channel !== 'email') throw new Error(`${integration.provider} sends no e-mail`);
    const sender = provider.connect(integration.config, this.#deps);
    // It then answers every message with "later", and so brings to an end what asks for it.
    if (this.#closed) void sender.close();
    const limiter = new Limiter({ maxCount: sender.concurrency, maxWeight: MAX_CHARACTERS_IN_FLIGHT });
    const made = { version: integration.version, sender, limiter, usedAtMs: nowMs };
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
