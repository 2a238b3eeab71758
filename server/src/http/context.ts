import type { Database } from '../db/client.ts';
import type { Context } from '../domain/context.ts';
import type { ProjectCache } from '../domain/projects/cache.ts';
import type { LastSeen } from '../domain/users/last-seen.ts';

/** What the HTTP part works with: the domain's context and the caches that requests need. */
export interface HttpContext extends Context {
  readonly projects: ProjectCache;
  readonly lastSeen: LastSeen;
}

/** The context as handlers get it: the database is the pool, or the transaction of an idempotent call. */
export type CallContext = Omit<HttpContext, 'db'> & { readonly db: Pick<Database, 'query' | 'transaction'> };
