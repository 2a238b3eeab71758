import type { Role } from '../../config.ts';

/** The roles of one process. Those that only serve realtime connections get them from the others. */
export interface ProcessPlan {
  roles: readonly Role[];
  listens: boolean;
}

// Frames cost much less than accepting and delivering what they show.
const REALTIME_SHARE = 1 / 4;

/**
 * Divides the roles of a node over its processes. Realtime connections have processes of their own, so that
 * requests and jobs do not delay frames.
 */
export function planProcesses(roles: readonly Role[], count: number): ProcessPlan[] {
  const others = roles.filter((role) => role !== 'realtime');
  if (others.length === roles.length || others.length === 0)
    return Array.from({ length: count }, () => ({ roles, listens: true }));
  const realtime = Math.max(1, Math.floor(count * REALTIME_SHARE));
  return Array.from({ length: count }, (_, index) =>
    index < count - realtime ? { roles: others, listens: true } : { roles: ['realtime'], listens: false },
  );
}
