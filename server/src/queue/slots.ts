import type { Job } from './jobs.ts';

/** How many batches may be at work at the same time. */
export interface SlotLimits {
  /** In all and for one project. */
  slots: number;
  slotsPerProject: number;
  /**
   * While a batch that weighs less is at work no other begins: it soon ends, and what comes meanwhile makes a
   * larger one, which costs little more. 0 where a batch waits for others than the database.
   */
  gatherBelow: number;
  /**
   * What may begin beyond that, as long as all that is at work weighs less than `maxWeight`: a batch of a
   * project that has none, and one more for each of which nothing ended for `silentMs`. Such a batch waits
   * for somebody who hangs; so many of a project may be passed by. Not for jobs that are handed over: nobody
   * asks whose those are.
   */
  beyond?: { maxWeight: number; silentMs: number; silentPerProject: number };
  /** No batch begins while those at work weigh as much: jobs at work are in memory. */
  maxWeightAtWork?: number;
}

/** A batch at work. */
export interface Slot {
  /** A part of the batch has ended: it does not hang. */
  progress(): void;
  end(): void;
}

/** Who is at work in a lane, and whether another batch may begin. */
export class Slots {
  readonly #limits: SlotLimits;
  readonly #onGivenUp: () => void;
  /**
   * Batches by project: those in their slots, and those that were silent for so long that they gave them up.
   */
  readonly #inSlots = new Map<string, number>();
  readonly #silent = new Map<string, number>();
  #active = 0;
  #weight = 0;
  /** Of the active, how many are silent, and how many soon end. */
  #silentInAll = 0;
  #short = 0;

  /** `onGivenUp` is told when a batch gives up its slot before its end. */
  constructor(limits: SlotLimits, onGivenUp: () => void) {
    this.#limits = limits;
    this.#onGivenUp = onGivenUp;
  }

  /** Batches at work, silent ones too. */
  get active(): number {
    return this.#active;
  }

  /** Whether a batch may begin, of some project at least. */
  get free(): boolean {
    if (this.#weight >= (this.#limits.maxWeightAtWork ?? Number.POSITIVE_INFINITY)) return false;
    return this.#short === 0 && (this.#hasSlot() || this.#mayGoBeyond());
  }

  /** The projects of which none may begin. */
  get busyProjects(): string[] {
    if (!this.#hasSlot()) return [...new Set([...this.#inSlots.keys(), ...this.#silent.keys()])];
    return [...this.#inSlots].flatMap(([id, count]) => (count >= this.#limits.slotsPerProject ? [id] : []));
  }

  /** Begins a batch of these jobs. */
  take(jobs: readonly Job[]): Slot {
    const projects = new Set(jobs.map((job) => job.projectId));
    const weight = weightOf(jobs);
    const short = weight < this.#limits.gatherBelow;
    this.#change(weight, short, 1);
    count(this.#inSlots, projects, 1);
    let state: 'in slot' | 'silent' | 'ended' = 'in slot';
    const { beyond } = this.#limits;
    const timer =
      beyond &&
      setTimeout(() => {
        if (!this.#mayPassBy(projects)) {
          timer?.refresh();
          return;
        }
        state = 'silent';
        this.#moveToSilent(projects, 1);
        this.#onGivenUp();
      }, beyond.silentMs);
    return {
      progress() {
        // A timer that has run, or was stopped, would start anew.
        if (state === 'in slot') timer?.refresh();
      },
      end: () => {
        clearTimeout(timer);
        if (state === 'silent') this.#moveToSilent(projects, -1);
        state = 'ended';
        count(this.#inSlots, projects, -1);
        this.#change(weight, short, -1);
      },
    };
  }

  #hasSlot(): boolean {
    return this.#active - this.#silentInAll < this.#limits.slots;
  }

  #mayGoBeyond(): boolean {
    return this.#weight < (this.#limits.beyond?.maxWeight ?? 0);
  }

  #mayPassBy(projects: ReadonlySet<string>): boolean {
    const most = this.#limits.beyond?.silentPerProject ?? 0;
    return this.#mayGoBeyond() && [...projects].every((id) => (this.#silent.get(id) ?? 0) < most);
  }

  #change(weight: number, short: boolean, by: 1 | -1): void {
    this.#active += by;
    this.#weight += by * weight;
    if (short) this.#short += by;
  }

  #moveToSilent(projects: ReadonlySet<string>, by: 1 | -1): void {
    this.#silentInAll += by;
    count(this.#silent, projects, by);
    count(this.#inSlots, projects, by === 1 ? -1 : 1);
  }
}

/** How much work these jobs are together. */
export function weightOf(jobs: readonly Job[]): number {
  return jobs.reduce((sum, job) => sum + job.weight, 0);
}

function count(byProject: Map<string, number>, projects: ReadonlySet<string>, by: 1 | -1): void {
  for (const id of projects) {
    const now = (byProject.get(id) ?? 0) + by;
    if (now === 0) byProject.delete(id);
    else byProject.set(id, now);
  }
}
