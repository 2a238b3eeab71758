import { type Database, isOfOneItem } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';
import { oneAtATime } from '../../../lib/one-at-a-time.ts';
import { waitMs } from '../../../lib/wait.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { type EventDetails, type NewEvent, recordEvents } from '../../ground/events/record.ts';
import {
  claimProbe,
  endPauses,
  nameOf,
  type Pause,
  type PauseKey,
  releaseProbes,
  writePauses,
} from './pauses.ts';

const RETRY_EVERY_MS = 1_000;
// The oldest are dropped: integrations that fail while the database does may pause and resume without end.
const MAX_EVENTS = 10_000;

/** The event that an integration is paused, or works again. */
export type IntegrationEvent = NewEvent & { details: EventDetails };

/** What to write: a pause, its end, or the end of a probe that has shown nothing. */
type Change = Pause | 'ended' | 'released';

/** What is written together. */
interface Entries {
  changes: readonly { key: PauseKey; change: Change }[];
  events: readonly IntegrationEvent[];
}

/**
 * Writes which integrations are paused, for the API, `doctor` and other nodes, which are notified, and the
 * events about it. While the database is busy or unavailable it keeps the events, and only the latest change
 * of each integration.
 */
export class PauseRecorder {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #bus: Pick<Bus, 'publish'>;
  readonly #nodeId: string;
  #changes = new Map<string, { key: PauseKey; change: Change }>();
  #events: IntegrationEvent[] = [];
  /** The names of changes that are being written. */
  #inFlight: ReadonlySet<string> = new Set();
  readonly #write = oneAtATime(() => this.#writeChanges());
  #writing: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(deps: {
    db: Database;
    clock: Clock;
    log: Logger;
    bus: Pick<Bus, 'publish'>;
    nodeId: string;
  }) {
    this.#db = deps.db;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#bus = deps.bus;
    this.#nodeId = deps.nodeId;
  }

  /** `event` is absent if a pause lasts longer. */
  paused(pause: Pause, event?: IntegrationEvent): void {
    if (event !== undefined) {
      this.#log.warn(factsOf(event), 'integration paused: its provider rejects it or does not respond');
      this.#events.push(event);
    }
    this.#change(pause, pause);
  }

  resumed(key: PauseKey, event: IntegrationEvent): void {
    this.#log.info(factsOf(event), 'integration works again');
    this.#events.push(event);
    this.#change(key, 'ended');
  }

  /** A probe of this node has shown nothing: any node may send the next one. */
  released(key: PauseKey): void {
    if (!this.#changes.has(nameOf(key))) this.#change(key, 'released');
  }

  /** See pauses.ts. */
  claimProbe(key: PauseKey, version: string): Promise<number | undefined> {
    return claimProbe(this.#db, { key, version, nodeId: this.#nodeId, nowMs: this.#clock.now() });
  }

  /** Whether a change of this integration is not committed yet. */
  isWriting(key: PauseKey): boolean {
    return this.#changes.has(nameOf(key)) || this.#inFlight.has(nameOf(key));
  }

  /** Writes the remaining changes, unless the database is unavailable. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#writing;
  }

  #change({ projectId, integrationId, host }: PauseKey, change: Change): void {
    const key = { projectId, integrationId, host };
    this.#changes.set(nameOf(key), { key, change });
    this.#writing = this.#write();
  }

  async #writeChanges(): Promise<void> {
    while (this.#changes.size > 0) {
      const [changes, events] = [this.#changes, this.#events];
      this.#changes = new Map();
      this.#events = [];
      this.#inFlight = new Set(changes.keys());
      const left = await this.#tryToCommit({ changes: [...changes.values()], events });
      this.#inFlight = new Set();
      if (left.changes.length + left.events.length === 0) continue;
      if (this.#closing.signal.aborted) return;
      const again = left.changes.map((one) => [nameOf(one.key), one] as const);
      this.#changes = new Map([...again, ...this.#changes]);
      this.#events = [...left.events, ...this.#events].slice(-MAX_EVENTS);
      await waitMs(RETRY_EVERY_MS, this.#closing.signal).catch(() => {});
    }
  }

  /** Returns what is to be tried again. If something is rejected, each project is tried alone. */
  async #tryToCommit(entries: Entries): Promise<Entries> {
    try {
      await this.#commit(entries);
      return { changes: [], events: [] };
    } catch (error) {
      const parts = isOfOneItem(error) ? byProject(entries) : [entries];
      if (parts.length === 1) {
        this.#log.warn({ err: error }, 'could not write the pauses of integrations; retrying');
        return entries;
      }
      const left: Entries[] = [];
      for (const part of parts) left.push(await this.#tryToCommit(part));
      return {
        changes: left.flatMap(({ changes }) => changes),
        events: left.flatMap(({ events }) => events),
      };
    }
  }

  async #commit({ changes, events }: Entries): Promise<void> {
    const pauses = changes.flatMap(({ change }) => (typeof change === 'string' ? [] : [change]));
    const keysOf = (kind: Change) => changes.flatMap(({ key, change }) => (change === kind ? [key] : []));
    const [ended, released] = [keysOf('ended'), keysOf('released')];
    await this.#db.transaction(async (tx) => {
      if (pauses.length > 0) await writePauses(tx, pauses);
      if (ended.length > 0) await endPauses(tx, ended);
      if (released.length > 0) await releaseProbes(tx, this.#nodeId, released);
      await recordEvents(tx, events);
    });
    for (const { key, change } of changes)
      if (change !== 'released') this.#bus.publish({ type: 'pause_changed', ...key, nodeId: this.#nodeId });
  }
}

function byProject({ changes, events }: Entries): Entries[] {
  const ids = new Set([...changes.map(({ key }) => key.projectId), ...events.map((one) => one.projectId)]);
  return [...ids].map((id) => ({
    changes: changes.filter(({ key }) => key.projectId === id),
    events: events.filter(({ projectId }) => projectId === id),
  }));
}

/** Which integration of which project it is, and why. */
function factsOf({ projectId, details: { code, log: reason, payload } }: IntegrationEvent): object {
  return { projectId, integration: payload, code, reason };
}
