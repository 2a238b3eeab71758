import type { Queryable } from '../../../db/client.ts';
import type { Logger } from '../../../lib/log.ts';
import { oneAtATime } from '../../../lib/one-at-a-time.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import type { PauseRecorder } from '../../setup/integrations/pause-recorder.ts';
import {
  loadPauses,
  loadPausesOf,
  nameOf,
  type Pause,
  type PauseKey,
} from '../../setup/integrations/pauses.ts';
import type { IntegrationHealth } from './integration-health.ts';

// Messages of the bus can be lost.
const READ_ALL_EVERY_MS = 30_000;
// More changes are read with all pauses.
const MAX_KEYS = 1_000;

type SharedHealth = Pick<IntegrationHealth, 'adopt' | 'resume' | 'pauses'>;

/**
 * Follows the pauses of integrations that other nodes write: a breaker that opens or closes on one node does
 * so on all. The bus announces changes, and the database is the truth.
 */
export class PauseFollower {
  readonly #db: Queryable;
  readonly #log: Logger;
  readonly #health: SharedHealth;
  readonly #recorder: Pick<PauseRecorder, 'isWriting'>;
  readonly #unsubscribe: () => void;
  readonly #readAllEveryMs: number;
  #timer: NodeJS.Timeout | undefined;
  /** What to read next. */
  #changed: Map<string, PauseKey> | 'all' = new Map();
  readonly #catchUp = oneAtATime(() => this.#readChanged());

  constructor(deps: {
    db: Queryable;
    log: Logger;
    bus: Pick<Bus, 'subscribe'>;
    nodeId: string;
    dispatcher: { readonly health: SharedHealth };
    recorder: Pick<PauseRecorder, 'isWriting'>;
    readAllEveryMs?: number;
  }) {
    this.#db = deps.db;
    this.#log = deps.log;
    this.#health = deps.dispatcher.health;
    this.#recorder = deps.recorder;
    this.#readAllEveryMs = deps.readAllEveryMs ?? READ_ALL_EVERY_MS;
    this.#unsubscribe = deps.bus.subscribe((message) => {
      if (message.type === 'missed') this.#readSoon('all');
      else if (message.type === 'pause_changed' && message.nodeId !== deps.nodeId) this.#readSoon(message);
    });
  }

  /** Reads all pauses, then follows them. */
  async start(): Promise<void> {
    await this.#read('all');
    this.#timer = setInterval(() => this.#readSoon('all'), this.#readAllEveryMs);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#unsubscribe();
    await this.#catchUp();
  }

  #readSoon(what: PauseKey | 'all'): void {
    if (what === 'all' || this.#changed === 'all' || this.#changed.size === MAX_KEYS) this.#changed = 'all';
    else this.#changed.set(nameOf(what), what);
    void this.#catchUp();
  }

  async #readChanged(): Promise<void> {
    while (this.#changed === 'all' || this.#changed.size > 0) {
      const changed = this.#changed;
      this.#changed = new Map();
      await this.#read(changed === 'all' ? 'all' : [...changed.values()]).catch((error: unknown) => {
        this.#log.warn({ err: error }, 'pauses of integrations could not be read');
      });
    }
  }

  /** Takes over the pauses of the database. Those that it no longer has were ended by another node. */
  async #read(what: readonly PauseKey[] | 'all'): Promise<void> {
    const known = (what === 'all' ? this.#health.pauses() : what).filter(
      (key) => !this.#recorder.isWriting(key),
    );
    const found: Pause[] = what === 'all' ? await loadPauses(this.#db) : await loadPausesOf(this.#db, what);
    this.#health.adopt(found);
    const lasting = new Set(found.map(nameOf));
    this.#health.resume(known.filter((key) => !lasting.has(nameOf(key))));
  }
}
