import { LRUCache } from 'lru-cache';
import type { CategoryConfig } from '../../../contract/category.ts';
import type { Tracking } from '../../../contract/tracking.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Window } from '../../../lib/weekly-hours.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { storedKey } from '../../ground/links/stored-key.ts';
import { loadProjectWindows, type ProjectWindows, windowsOf } from '../delivery-windows/of-project.ts';
import { getTracking } from '../tracking/get.ts';

/** What is to be known of a project's categories before anything of them goes out. */
export interface ProjectCategories {
  /** Those that the project has configured, by their keys. */
  readonly configured: ReadonlyMap<string, Category>;
  /**
   * False when no user has ever switched the channel off for the category: then there is nothing to look for.
   */
  mayBeOff(category: string | null, channel: string): boolean;
  /** When its messages go out. */
  readonly windows: ProjectWindows;
  /** What is to be known of their recipients. */
  readonly tracking: Tracking;
}

/** What a project decided about a category. */
export interface Category {
  readonly key: string;
  readonly disabled: boolean;
  /** Users cannot switch it off: their opt-outs and all delivery windows are ignored. */
  readonly critical: boolean;
  /** The only channels that it goes out on, in the order in which they were given. */
  readonly channels: readonly CategoryChannel[];
}

export interface CategoryChannel {
  readonly channel: string;
  readonly delayMs: number;
  /** The text of a condition that was parsed when it was saved. */
  readonly condition: string | undefined;
  /** When it goes out, in the place of the project's own windows. */
  readonly windows: readonly Window[] | undefined;
}

// A change on another node is known at the latest after this, even if its message was lost.
const FRESH_MS = 10_000;
const MAX_PROJECTS = 5_000;
// Users may name categories as they like. Of a project with more than so many, everything may be off.
const MAX_SWITCHED_OFF = 1_000;

/** The categories of the projects in use, in memory. */
export class CategoryCache {
  readonly #db: Queryable;
  readonly #entries = new LRUCache<string, Promise<ProjectCategories>>({
    ...cacheLimit(MAX_PROJECTS),
    ttl: FRESH_MS,
  });
  readonly #unsubscribe: () => void;

  constructor({ db, bus }: { db: Queryable; bus: Bus }) {
    this.#db = db;
    this.#unsubscribe = bus.subscribe((message) => {
      if (message.type === 'project_changed') this.#entries.delete(message.projectId);
      else if (message.type === 'missed') this.#entries.clear(); // any of them may have changed
    });
  }

  of(projectId: string): Promise<ProjectCategories> {
    const held = this.#entries.get(projectId);
    if (held) return held;
    const loading = this.#load(projectId);
    this.#entries.set(projectId, loading);
    // A failure is for whoever asked; the next one asks again.
    loading.catch(() => this.#entries.delete(projectId));
    return loading;
  }

  close(): void {
    this.#unsubscribe();
  }

  async #load(projectId: string): Promise<ProjectCategories> {
    const [rows, off, windows, tracking] = await Promise.all([
      this.#db.query<{ config: string }>(selectCategories, [projectId]),
      this.#db.query<{ name: string }>(selectSwitchedOff, [projectId, MAX_SWITCHED_OFF + 1]),
      loadProjectWindows(this.#db, projectId),
      getTracking(this.#db, projectId),
    ]);
    const configs = rows.map((row) => JSON.parse(row.config) as CategoryConfig);
    const names = new Set(off.map((row) => row.name));
    return {
      configured: new Map(configs.map((config) => [config.key, categoryOf(config)])),
      mayBeOff: (category, channel) =>
        names.size > MAX_SWITCHED_OFF || names.has(`${storedKey(category)} ${channel}`),
      windows,
      tracking,
    };
  }
}

function categoryOf({ key, disabled, critical, channels }: CategoryConfig): Category {
  return {
    key,
    disabled: disabled === true,
    critical: critical === true,
    channels: channels.map(({ channel, delay, if: condition, windows }) => ({
      channel,
      delayMs: (delay ?? 0) * 1_000,
      condition: condition ?? undefined,
      windows: windows && windowsOf(windows),
    })),
  };
}

// Index categories_listed (project_id, id): at most a thousand.
const selectCategories = sql(
  'select_categories_of_project',
  'select config from categories where project_id = $1 order by id',
);
// Primary key.
const selectSwitchedOff = sql(
  'select_preference_categories_of_project',
  `select category || ' ' || channel as name
  from preference_categories
  where project_id = $1
  limit $2`,
);
