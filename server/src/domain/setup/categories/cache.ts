import type { CategoryConfig } from '../../../contract/category.ts';
import type { Tracking } from '../../../contract/tracking.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Window } from '../../../lib/weekly-hours.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { loadProjectWindows, type ProjectWindows, windowsOf } from '../delivery-windows/windows.ts';
import { PerProject } from '../projects/per-project.ts';
import { getTracking } from '../tracking/settings.ts';

/** A project's settings for its notifications. */
export interface ProjectCategories {
  /** The categories that the project has configured, by their keys. */
  readonly configured: ReadonlyMap<string, Category>;
  /** Returns false if no user has ever switched the channel off for the category. */
  mayBeOff(category: string | null, channel: string): boolean;
  readonly windows: ProjectWindows;
  readonly tracking: Tracking;
}

/** The config of a category. */
export interface Category extends Pick<CategoryConfig, 'label' | 'description' | 'locales'> {
  readonly key: string;
  readonly disabled: boolean;
  /** Users cannot switch it off: their opt-outs and all delivery windows are ignored. */
  readonly critical: boolean;
  /** The only channels that it uses, in the order of the config. */
  readonly channels: readonly CategoryChannel[];
}

export interface CategoryChannel {
  readonly channel: string;
  readonly delayMs: number;
  /** Was parsed when it was saved. */
  readonly condition: string | undefined;
  /** Replace the project's delivery windows. */
  readonly windows: readonly Window[] | undefined;
}

// Users may invent categories. With more pairs of category and channel, all count as switched off by some
// user.
const MAX_SWITCHED_OFF = 1_000;

/** The categories of the projects in use. */
export type CategoryCache = PerProject<ProjectCategories>;

export function createCategoryCache({ db, bus }: { db: Queryable; bus: Bus }): CategoryCache {
  return new PerProject(bus, (projectId) => loadCategories(db, projectId));
}

async function loadCategories(db: Queryable, projectId: string): Promise<ProjectCategories> {
  const [rows, off, windows, tracking] = await Promise.all([
    db.query<{ config: string }>(selectCategories, [projectId]),
    db.query<{ name: string }>(selectSwitchedOff, [projectId, MAX_SWITCHED_OFF + 1]),
    loadProjectWindows(db, projectId),
    getTracking(db, projectId),
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

/** Returns the key under which preferences for a category are stored. */
export function storedKey(category: string | null): string {
  return category ?? '';
}

function categoryOf({ disabled, critical, channels, ...config }: CategoryConfig): Category {
  return {
    ...config,
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

// Index categories_listed (project_id, id). Returns at most MAX_CATEGORIES (save.ts) rows.
const selectCategories = sql(
  'select_categories',
  'select config from categories where project_id = $1 order by id',
);
// Primary key.
const selectSwitchedOff = sql(
  'select_preference_categories',
  `select category || ' ' || channel as name
  from preference_categories
  where project_id = $1
  limit $2`,
);
