import type { Clock } from '../../lib/clock.ts';
import type { EgressGuard } from '../../lib/egress.ts';
import { emailProviders } from '../../providers/index.ts';
import type { EmailMessage, Sender, Timeouts } from '../../providers/provider.ts';
import type { OpenedIntegration } from '../integrations/of-project.ts';

// A sender that nobody used for this long is closed. Its connections are closed much earlier, by itself.
const IDLE_MS = 10 * 60_000;

/** The live senders, one for each integration; made anew when the integration's config changed. */
export class Senders {
  readonly #deps: { egress: EgressGuard; clock: Clock; timeouts?: Partial<Timeouts> };
  readonly #senders = new Map<string, { version: string; sender: Sender<EmailMessage>; usedAtMs: number }>();
  readonly #timer: NodeJS.Timeout;
  #closed = false;

  constructor(deps: { egress: EgressGuard; clock: Clock; timeouts?: Partial<Timeouts> }) {
    this.#deps = deps;
    this.#timer = setInterval(() => this.#closeIdle(), IDLE_MS / 10);
    this.#timer.unref();
  }

  /** The sender of an e-mail integration. */
  email(integration: OpenedIntegration): Sender<EmailMessage> {
    const nowMs = this.#deps.clock.now();
    const held = this.#senders.get(integration.id);
    if (held !== undefined && held.version === integration.version) {
      held.usedAtMs = nowMs;
      return held.sender;
    }
    if (held) void held.sender.close();
    const provider = emailProviders.get(integration.provider);
    if (provider === undefined) throw new Error(`${integration.provider} sends no e-mail`);
    const sender = provider.connect(integration.config, this.#deps);
    // It then answers every message with "later", and so brings to an end what asks for it.
    if (this.#closed) void sender.close();
    this.#senders.set(integration.id, { version: integration.version, sender, usedAtMs: nowMs });
    return sender;
  }

  /** Sends nothing more; what is on its way gets `graceMs`. */
  async close(options: { graceMs?: number } = {}): Promise<void> {
    clearInterval(this.#timer);
    this.#closed = true;
    await Promise.all([...this.#senders.values()].map(({ sender }) => sender.close(options)));
  }

  #closeIdle(): void {
    const before = this.#deps.clock.now() - IDLE_MS;
    for (const [id, { sender, usedAtMs }] of this.#senders) {
      if (usedAtMs >= before) continue;
      this.#senders.delete(id);
      void sender.close();
    }
  }
}
