import type { Job } from './jobs.ts';

/** How many batches may run at the same time. */
export interface SlotLimits {
  /** In total and for one partition. */
  slots: number;
  slotsPerPartition: number;
  /**
   * While a batch of less weight runs, no other starts: it ends soon, and the jobs that arrive meanwhile make
   * a larger batch that costs little more. 0 for batches that wait for other hosts than the database.
   */
  gatherBelow: number;
  /**
   * Batches that may run beyond the slots, while the running batches of a lane weigh less than `maxWeight`.
   * When all slots are taken, each partition without a running batch may start one. A batch without a
   * heartbeat for `silentMs` frees its slot, because it waits for a host that hangs; at most
   * `silentPerPartition` batches of a partition do so. Reserved jobs are not checked by partition.
   */
  beyond?: { maxWeight: number; silentMs: number; silentPerPartition: number };
}

/** A running batch. */
export interface Slot {
  /** A part of the batch has ended: it does not hang. */
  heartbeat(): void;
  end(): void;
}

/** Counts the running batches of a producer, and decides whether another may start. */
export class Slots {
  readonly #limits: SlotLimits;
  readonly #onFreed: () => void;
  /** Batches by partition: those in a slot, and those that were silent for so long that they freed it. */
  readonly #inSlots = new Map<string, number>();
  readonly #silent = new Map<string, number>();
  #active = 0;
  #weight = 0;
  /** Active batches that are silent, and that are below `gatherBelow`. */
  #silentTotal = 0;
  #small = 0;

  /** `onFreed` is called when a silent batch frees its slot before its end. */
  constructor(limits: SlotLimits, onFreed: () => void) {
    this.#limits = limits;
    this.#onFreed = onFreed;
  }

  /** Running batches, including silent ones. */
  get active(): number {
    return this.#active;
  }

  /** The weight of the running batches. */
  get weight(): number {
    return this.#weight;
  }

  /** Whether a batch of at least one partition may start. */
  get free(): boolean {
    return this.#small === 0 && (this.#hasSlot() || this.#mayGoBeyond());
  }

  /** The partitions of which no batch may start. */
  get busyPartitions(): string[] {
    if (!this.#hasSlot()) return [...new Set([...this.#inSlots.keys(), ...this.#silent.keys()])];
    return [...this.#inSlots].flatMap(([id, count]) => (count >= this.#limits.slotsPerPartition ? [id] : []));
  }

  /** Starts a batch of these jobs. */
  take(jobs: readonly Job[]): Slot {
    const partitions = new Set(jobs.map((job) => job.partitionKey));
    const weight = weightOf(jobs);
    const isSmall = weight < this.#limits.gatherBelow;
    this.#change(weight, isSmall, 1);
    count(this.#inSlots, partitions, 1);
    let state: 'in slot' | 'silent' | 'ended' = 'in slot';
    const { beyond } = this.#limits;
    const timer =
      beyond &&
      setTimeout(() => {
        if (!this.#mayFreeSlot(partitions)) {
          timer?.refresh();
          return;
        }
        state = 'silent';
        this.#moveToSilent(partitions, 1);
        this.#onFreed();
      }, beyond.silentMs);
    return {
      heartbeat() {
        // Refreshing a timer that has fired or was cleared would start it.
        if (state === 'in slot') timer?.refresh();
      },
      end: () => {
        clearTimeout(timer);
        if (state === 'silent') this.#moveToSilent(partitions, -1);
        state = 'ended';
        count(this.#inSlots, partitions, -1);
        this.#change(weight, isSmall, -1);
      },
    };
  }

  #hasSlot(): boolean {
    return this.#active - this.#silentTotal < this.#limits.slots;
  }

  #mayGoBeyond(): boolean {
    return this.#weight < (this.#limits.beyond?.maxWeight ?? 0);
  }

  #mayFreeSlot(partitions: ReadonlySet<string>): boolean {
    const most = this.#limits.beyond?.silentPerPartition ?? 0;
    return this.#mayGoBeyond() && [...partitions].every((id) => (this.#silent.get(id) ?? 0) < most);
  }

  #change(weight: number, isSmall: boolean, by: 1 | -1): void {
    this.#active += by;
    this.#weight += by * weight;
    if (isSmall) this.#small += by;
  }

  #moveToSilent(partitions: ReadonlySet<string>, by: 1 | -1): void {
    this.#silentTotal += by;
    count(this.#silent, partitions, by);
    count(this.#inSlots, partitions, by === 1 ? -1 : 1);
  }
}

/** The total weight of these jobs. */
export function weightOf(jobs: readonly Pick<Job, 'weight'>[]): number {
  return jobs.reduce((sum, job) => sum + job.weight, 0);
}

function count(byPartition: Map<string, number>, partitions: ReadonlySet<string>, by: 1 | -1): void {
  for (const id of partitions) {
    const now = (byPartition.get(id) ?? 0) + by;
    if (now === 0) byPartition.delete(id);
    else byPartition.set(id, now);
  }
}
