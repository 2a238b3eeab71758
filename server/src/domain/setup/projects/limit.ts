import { type Queryable, sql } from '../../../db/client.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import type { Project } from './cache.ts';

/**
 * Requests per minute and credential: 0 for no limit, null for the server's setting, undefined for no change.
 */
export interface LimitChange {
  reads?: number | null;
  writes?: number | null;
}

/** Changes the rate limits of a project. Returns them, or undefined for an unknown project. */
export async function limitProject(
  { db, bus }: { db: Queryable; bus: Bus },
  projectId: string,
  change: LimitChange,
): Promise<Project['rateLimits'] | undefined> {
  const [row] = await db.query<{ rate_limits: string }>(updateLimits, [projectId, JSON.stringify(change)]);
  if (row === undefined) return undefined;
  if (Object.keys(change).length > 0) bus.publish({ type: 'project_changed', projectId });
  return JSON.parse(row.rate_limits) as Project['rateLimits'];
}

// projects_pkey.
const updateLimits = sql(
  'limit_project',
  `update projects
  set rate_limits = jsonb_strip_nulls(coalesce(rate_limits::jsonb, '{}') || $2::jsonb)::json
  where id = $1
  returning rate_limits`,
);
